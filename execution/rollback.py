"""Takes back waves of a plan: ``./ballast rollback``. What was done goes back, the last wave first."""

from collections.abc import Sequence
from dataclasses import replace

from execution import journal as events
from execution import preflight
from execution.fix_dirs import check_dirs
from execution.held import holding, without_held
from execution.journal import WaveId
from execution.moves import elect
from execution.observed import Observed, Place, TopicPartition
from execution.run import Limits, execute_wave, is_over, refusals, say_changes, wait_until_well
from execution.steps import Execution, Incomplete
from execution.wave import MoveState, Wave, rollback_of
from optimizer.errors import bullets
from optimizer.units import agree
from stored.verdicts import Refused


def roll_back(
    step: Execution, waves: Sequence[Wave], chosen: Sequence[int], limits: Limits, *, by: str, accept_owed: bool
) -> None:
    """Cancel what runs, take the waves back under their throttles, and elect the old leaders.

    Each wave is taken back as a wave of its own, whose number is negative in the journal. So every fault of a wave is
    handled in the same way, and the same command goes on after a kill.

    Parameters
    ----------
    step : Execution
        Of any wave; its other fields count.
    waves : sequence of Wave
        All waves of the plan.
    chosen : sequence of int
        The waves to take back.
    by : str
        Who takes them back, for the journal.
    accept_owed : bool
        Whether to go on although brokers that do not answer keep the rates of a wave that is cancelled.

    Raises
    ------
    Refused
        When a later wave was executed: its copies may use the space of what would come back.
    Incomplete
        When some partitions cannot go back or are not led by their first replica, or when ``--fix-dirs`` could not move
        a replica.
    StillMoving, Stalled
        As ``run_waves``.
    """
    undone = [rollback_of(waves[number - 1]) for number in sorted(chosen, reverse=True)]
    step.ledger.check_not_overtaken(step.plan)
    _check(step, waves, chosen, step.observe_settled())
    hold = step.ledger.holder
    if hold and not (hold.is_of(step.plan) and hold.wave in {wave.id for wave in (*waves, *undone)}):
        step.ledger.check_free(step.plan, undone[0].id)
    numbers = [wave.number for wave in undone]
    undone.sort(key=lambda wave: not step.ledger.hold_of(step.plan, wave.id))  # the one that holds goes on first
    step.journal.note(step.plan, events.ROLLBACK, {"waves": numbers, "by": by})
    _end_what_runs(step, waves, accept_owed=accept_owed)
    patience = limits.patience()
    misplaced: list[str] = []
    before = len(step.ledger.rows)
    try:
        for wave in undone:
            of_wave = step.on(wave)
            if not is_over(of_wave) and not _is_untouched(of_wave):
                if wave is not undone[0]:
                    wait_until_well(of_wave, patience, None)
                misplaced += execute_wave(of_wave, limits, patience, accept_owed=accept_owed)
            elif step.fix_dirs:
                misplaced += check_dirs(of_wave, patience)
    except Refused:
        if len(step.ledger.rows) == before:  # nothing has begun: the plan is not being taken back
            step.journal.note(step.plan, events.TAKEN_BACK, {"waves": []})
        raise
    step.on(undone[-1]).uncordon([*step.cordons.own], accept_owed=accept_owed)  # if no wave had to copy anything
    _elect(replace(step, wave=undone[-1], earlier=waves), waves, undone, misplaced)


def give_up(step: Execution, *, by: str) -> None:
    """End a rollback of the plan that has begun: if its wave holds the cluster, that is cancelled."""
    hold = step.ledger.holder
    if hold and hold.is_of(step.plan) and hold.wave.is_rollback:
        step.on(holding(step.journal, hold)).off(cancel=True, accept_owed=False)
    step.journal.note(step.plan, events.TAKEN_BACK, {"waves": [], "by": by})


def say_rollback(step: Execution, waves: Sequence[Wave], chosen: Sequence[int]) -> None:
    """Say every change that a rollback would make to the cluster as it is now; change nothing."""
    now = step.observe_settled()
    _check(step, waves, chosen, now)
    for broker in step.cordons.own:
        step.say(f"would end the cordon of broker {broker}")
    for wave in waves:
        if running := _running(wave, now):
            step.say(f"would cancel {preflight.partition_names(running)}")
            now = _cancelled(wave, running, now)
    refused, is_first = _refusals(step, waves, chosen), True
    for number in sorted(chosen, reverse=True):
        of_wave = step.on(rollback_of(waves[number - 1]))
        at_begin = without_held(step.journal, step.plan, of_wave.wave, now)
        if say_changes(of_wave, at_begin, refused, is_first=is_first):
            refused, is_first = [], False
        for line in _stuck(waves[number - 1], now):
            step.say(line)
    step.say("would elect the first replica of each old list")


def _refusals(step: Execution, waves: Sequence[Wave], chosen: Sequence[int]) -> list[str]:
    """Why a rollback would refuse to begin; a wave of the plan that holds the cluster is cancelled first."""
    plan, ledger = step.plan, step.ledger
    hold = ledger.holder
    ids = {*(wave.id for wave in waves), *(WaveId(number, is_rollback=True) for number in chosen)}
    begins = hold.wave if hold and hold.wave in ids else WaveId(max(chosen), is_rollback=True)
    return refusals(lambda: ledger.check_not_overtaken(plan), lambda: ledger.check_free(plan, begins))


def _running(wave: Wave, now: Observed) -> list[TopicPartition]:
    """The partitions of a wave whose copies run for sure."""
    if wave.inside:
        return sorted({replica[:2] for replica in wave.replicas_at(now, Place.MOVING)})
    return wave.by_state(now)[MoveState.IN_FLIGHT]


def _is_untouched(step: Execution) -> bool:
    """Whether a wave inside brokers was never started, by the journal; for brokers that do not report its replicas."""
    wave = step.wave
    if not wave.inside:
        return False
    now = step.observe_settled()
    unknown = preflight.unknown_brokers(wave, now)
    is_started = any(
        abs(row["wave"]) == wave.number and row["run_id"] == step.plan.run_id and row["event"] == events.STARTING
        for row in step.ledger.rows
    )
    if not unknown or is_started:
        return False
    step.say(f"{step.name}: the wave was never started, nothing to do; {preflight.describe_unknown(unknown)}")
    return True


def _cancelled(wave: Wave, running: Sequence[TopicPartition], now: Observed) -> Observed:
    """The state when these copies of a wave are cancelled."""
    if wave.inside and now.stored:
        moving = {replica: target for replica, target in now.stored.moving.items() if replica not in wave.inside}
        return replace(now, stored=replace(now.stored, moving=moving))
    in_flight = {partition: target for partition, target in now.in_flight.items() if partition not in running}
    replicas = {**now.replicas, **{partition: wave.before[partition] for partition in running}}
    return replace(now, in_flight=in_flight, replicas=replicas)


def _end_what_runs(step: Execution, waves: Sequence[Wave], *, accept_owed: bool) -> None:
    """Cancel the wave of this plan that holds the cluster, if there is one."""
    for wave in waves:
        if step.ledger.hold_of(step.plan, wave.id):
            step.on(wave).off(cancel=True, accept_owed=accept_owed)


def _check(step: Execution, waves: Sequence[Wave], chosen: Sequence[int], now: Observed) -> None:
    """Raise ``Refused`` if the waves cannot be taken back; before anything is changed."""
    problems = []
    later = [wave.number for wave in waves[max(chosen) :] if _moved(wave, now)]
    if later:
        were = agree(len(later), f"wave {later[0]} was", f"waves {', '.join(map(str, later))} were")
        problems.append(
            f"{were} executed later: take all back with --all, or the last one first with --wave {later[-1]}"
        )
    for wave in waves:
        running = _running(wave, now)
        if running and not step.ledger.hold_of(step.plan, wave.id):
            names = preflight.partition_names(running)
            problems.append(f"wave {wave.number} does not hold the cluster, but its copies run: cancel them: {names}")
    if problems:
        raise Refused(*problems)


def _moved(wave: Wave, now: Observed) -> list[TopicPartition]:
    """The partitions of a wave that were moved and can go back."""
    return [partition for partition in wave.by_state(now)[MoveState.DONE] if partition not in wave.stuck]


def _stuck(wave: Wave, now: Observed) -> list[str]:
    """The partitions of a wave that were moved and cannot go back."""
    done = [partition for partition in wave.by_state(now)[MoveState.DONE] if partition in wave.stuck]
    return [
        f"{preflight.partition_names([partition])} cannot go back: its old list {list(wave.before[partition])} has a "
        "broker that was dead at the snapshot"
        for partition in done
    ]


def _elect(step: Execution, waves: Sequence[Wave], undone: Sequence[Wave], misplaced: Sequence[str]) -> None:
    """Elect the first replicas of the old lists, and name what has not gone back."""
    now = step.observe_settled()
    run_id, rows = step.plan.run_id, step.ledger.rows
    executed = {row["wave"] for row in rows if row["event"] == events.EXECUTED and row["run_id"] == run_id}
    gone = [wave for wave in undone if wave.id.column in executed and not wave.inside]
    back = {p: wave.after[p] for wave in gone for p in wave.by_state(now)[MoveState.DONE]}
    lines: list[str] = []
    if back:
        with step.locked():
            step.journal.note(step.plan, events.ELECTING, {}, step.wave.id)
            lines = preflight.with_reasons(elect(step.admin, back, step.observe).reasons)
            step.journal.note(step.plan, events.ELECTED, {"not_led": lines}, step.wave.id)
    problems = [f"not led by the first replica: {line}" for line in lines]
    for wave in undone:
        problems += [*_stuck(waves[wave.number - 1], now), *preflight.skips(wave, now)]
    problems += misplaced
    step.journal.note(step.plan, events.TAKEN_BACK, {"waves": [wave.number for wave in undone], "left": problems})
    if problems:
        raise Incomplete(f"what could go back has gone back, except for:{bullets(problems)}")
    step.say("the partitions have their old replicas, and the first of each list leads")
