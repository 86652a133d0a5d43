"""Executes the waves of a plan one after the other: ``./ballast run``."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from execution import journal as events
from execution import preflight
from execution.actions import CHECK_SECONDS, Patience
from execution.admin import NoController
from execution.directories import announcements, describe_misplaced
from execution.fix_dirs import check_dirs
from execution.guard import describe_signs
from execution.health import Baseline, signs
from execution.held import predicted_seconds, wave_ends, without_held
from execution.journal import WaveId
from execution.moves import describe_moves
from execution.observed import Observed
from execution.planned import Plan, in_words, with_approvals
from execution.progress import describe_state
from execution.rules import frozen_by, period_of
from execution.steps import Execution, Incomplete, Owed, StillMoving
from execution.throttles import describe, to_set
from execution.throttling import settable
from execution.transitions import Act, Command
from execution.wanted import history
from execution.watch import EveryMinute, Stopped, Watch
from execution.wave import MoveState, Wave
from optimizer.errors import bullets
from optimizer.units import human_measured, human_predicted, human_time, plural
from stored.verdicts import Refused

_WAIT_SECONDS = (
    10.0  # between two tries to remove the rates of a broker that does not answer, or to begin after a freeze
)


@dataclass(frozen=True)
class Limits:
    """Which waves are executed, and how long.

    Parameters
    ----------
    first, last : int
        The waves.
    until : datetime or None
        Nothing is started that is estimated to end later.
    for_seconds : float or None
        When the command ends although copies run; None: it waits for them.
    stall_seconds : float
        The command ends if nothing gets on for this time.
    max_hours : float or None
        Limit of the snapshot's age, instead of the plan's own time of expiry.
    """

    first: int
    last: int
    until: datetime | None
    for_seconds: float | None
    stall_seconds: float
    max_hours: float | None

    def patience(self) -> Patience:
        """How long to watch, from now on."""
        until = None if self.for_seconds is None else time.monotonic() + self.for_seconds
        return Patience(self.stall_seconds, until)


def run_waves(step: Execution, waves: Sequence[Wave], limits: Limits) -> None:
    """Execute waves; each only when the one before is done and its throttles are removed.

    Parameters
    ----------
    step : Execution
        Of any wave; its other fields count.
    waves : sequence of Wave
        All waves of the plan. One that holds the cluster goes on first, also if it is none of those to execute.

    Raises
    ------
    Incomplete
        At the end, when partitions were skipped or are not led by their first replica, or when ``--fix-dirs`` could
        not move a replica.
    StillMoving
        When the time is over, or a wave would end too late.
    Stalled
        When nothing gets on.
    Refused
        When a wave may not start, also because somebody has revoked the approval meanwhile.
    """
    patience = limits.patience()
    baseline: Baseline | None = None
    misplaced: list[str] = []
    hold, chosen = step.ledger.holder, waves[limits.first - 1 : limits.last]
    held = [wave for wave in waves if hold and hold.is_of(step.plan) and hold.wave == wave.id]
    if held and held[0].number != limits.first:
        step.say(f"{held[0].id.name} holds the cluster, so it goes on first")
    for wave in (*held, *chosen):
        of_wave = step.on(wave, waves[: wave.number - 1])
        if not is_over(of_wave):
            if baseline is not None:
                wait_until_well(of_wave, patience, baseline)
            misplaced += execute_wave(of_wave, limits, patience)
            baseline = baseline or of_wave.held_baseline()
        elif step.fix_dirs:
            misplaced += check_dirs(of_wave, patience)
        if wave.number == step.plan.last_between_brokers < limits.last:
            of_wave.elect_early()
    waves = waves[: limits.last]
    last = step.on(waves[-1], waves[:-1])
    if limits.last >= step.plan.last_between_brokers:
        last.elect(misplaced)
    else:
        now = last.observe_settled()
        problems = [*(line for wave in waves for line in preflight.skips(wave, now)), *misplaced]
        if problems:
            raise Incomplete(f"the waves are done, except for:{bullets(problems)}")


def is_over(step: Execution, now: Observed | None = None) -> bool:
    """Whether a wave was executed before and has ended, in this state or as the cluster is now; says so."""
    if step.is_held():
        return False
    now = now or step.observe_settled()
    by_state = step.wave.by_state(now)
    is_over = not by_state[MoveState.NOT_STARTED] and not by_state[MoveState.IN_FLIGHT]
    if step.is_strict and step.wave.skipped(now):
        return False
    if is_over:
        step.say(f"{step.name}: nothing to do")
    return is_over


def execute_wave(step: Execution, limits: Limits, patience: Patience, *, accept_owed: bool = False) -> list[str]:
    """Execute all steps of a wave, or do what is left of them.

    Parameters
    ----------
    accept_owed : bool
        Whether to free the cluster although brokers that do not answer keep their rates.

    Returns
    -------
    list of str
        A line for each replica that ``--fix-dirs`` could not move to its planned directory.
    """
    step, wave = step.on(step.wave, step.earlier), step.wave
    act = step.decide(Command.ROLLBACK if wave.is_rollback else Command.RUN)
    if act in (Act.GO_ON, Act.CANCEL_FIRST):
        step.ledger.check_free(step.plan, wave.id)
    hold = step.hold
    if hold:
        step.say(f"{step.name} goes on")
    if act in (Act.BEGIN, Act.TAKE_BACK):
        _wait_until_may_begin(step, limits, patience)
        step.throttle()
        step.execute(is_watched=True)
    elif act is Act.WATCH:
        _go_on(step, limits, patience)
    if act in (Act.CANCEL, Act.REMOVE):
        _free(step, patience, accept_owed=accept_owed)
        if act is Act.CANCEL or (hold and hold.was_cancelled):
            raise Stopped(f"{step.name}: its cancel, which was killed, is finished")
    else:
        Watch(step, patience).to_the_end()
        _say_times(step)
        _free(step, patience, accept_owed=accept_owed)
    misplaced = check_dirs(step, patience)
    if history(step.ledger.last_hold_of(step.plan, wave.id))[-1].is_steered:
        raise Stopped(f"{step.name} has ended, and somebody wants that nothing more is started")
    return misplaced


def _free(step: Execution, patience: Patience, *, accept_owed: bool) -> None:
    """Remove the throttles; wait for brokers that do not answer, as long as copies may stand still."""
    begun, said = time.monotonic(), set[str]()

    def say_once(line: str) -> None:
        if line not in said:
            step.say(line)
        said.add(line)

    trying, lines = replace(step, say=say_once), EveryMinute(begun)
    while True:
        try:
            trying.off(cancel=False, accept_owed=accept_owed)
        except (Owed, NoController) as error:
            at_seconds = time.monotonic()
            if lines.take_turn(at_seconds):
                cause = "brokers that do not answer" if isinstance(error, Owed) else "the controller"
                step.say(f"{step.name} waits for {cause}, to remove their rates")
            if at_seconds - begun >= patience.stall_seconds or patience.is_over(at_seconds):
                raise
            time.sleep(_WAIT_SECONDS)
        else:
            return


def wait_until_well(step: Execution, patience: Patience, baseline: Baseline | None) -> None:
    """Wait between two waves while the cluster is not well, as when a broker restarts.

    Parameters
    ----------
    baseline : Baseline or None
        The cluster when the first of the waves began. Without it only the checks before a wave count.

    Raises
    ------
    StillMoving
        When the time is over, also if the cluster is well.
    Refused
        When the cluster is not well after the time that copies may stand still.
    """
    begun, every_minute = time.monotonic(), EveryMinute()
    while lines := _not_well(step, baseline):
        at_seconds = time.monotonic()
        if patience.is_over(at_seconds):
            raise StillMoving(f"{step.name} is not started: {lines[0]}")
        if at_seconds - begun >= patience.stall_seconds:
            preflight.refuse([preflight.Passing(line) for line in lines])
        if every_minute.take_turn(at_seconds):
            step.say(f"{step.name} waits: {lines[0]}")
        time.sleep(CHECK_SECONDS)
    if patience.is_over(time.monotonic()):
        raise StillMoving(f"{step.name} is not started: the time of this command is over")


def _not_well(step: Execution, baseline: Baseline | None) -> list[str]:
    now = step.observe()
    lines = step.at_risk(now)
    if baseline is not None:
        found = {*signs(now, now.min_isr, brokers=baseline.alive), *step.full_directories(now)}
        lines += describe_signs(frozenset(found - baseline.signs))
    return lines


def _go_on(step: Execution, limits: Limits, patience: Patience) -> None:
    """Do what a killed process has not done before its copies ran.

    Copies that run go on, whatever others have changed meanwhile; the watch starts what waits.
    """
    now = step.observe_settled()
    if step.wave.by_state(now)[MoveState.NOT_STARTED] and not step.wave.moving(now):
        if not (step.hold and step.hold.is_executed):
            _wait_until_may_begin(step, limits, patience)
        with step.changing():
            step.restore_throttles(step.wave)
        step.execute(is_watched=True)
    elif not (step.hold and step.hold.is_executed):
        step.record(events.EXECUTED)


def _say_times(step: Execution) -> None:
    """Say how long the copies took; nothing if partitions were skipped or the wave was cancelled before."""
    key = (step.plan.run_id, step.plan.cluster_id, step.wave.id.column)
    measured = events.copy_seconds(step.ledger.rows).get(key)
    if measured is not None:
        ends = wave_ends(step.warehouse, step.plan).get(step.wave.id.column)
        predicted = human_predicted(*ends) if ends else "not predicted"
        step.say(f"{step.name} is copied: {predicted}, {human_measured(measured)} measured")


def _check_ends_in_time(step: Execution, until: datetime | None) -> None:
    if until is None:
        return
    seconds = estimated_seconds(step)
    end = datetime.now(tz=UTC) + timedelta(seconds=seconds)
    if end > until:
        end += timedelta(minutes=1)  # in words it has no seconds: it would seem to end in time
        raise StillMoving(
            f"{step.name} is not started: it takes about {human_time(seconds)} and would end at {in_words(end)}, after "
            f"{in_words(until)}"
        )


def _wait_until_may_begin(step: Execution, limits: Limits, patience: Patience) -> None:
    """Check that a wave may begin to copy; wait while a freeze forbids it.

    Raises
    ------
    StillMoving
        When the time is over, or the wave would end too late.
    Refused
        When the wave may not begin, also because of what others have done meanwhile.
    """
    is_held, is_rollback, every_minute = step.is_held(), step.wave.is_rollback, EveryMinute()
    while True:
        plan = with_approvals(step.warehouse, step.plan)
        if is_held:
            step.check_still_held()
        else:
            plan.check_approved(even_if_revoked=is_rollback)
            if not is_rollback:
                step.ledger.check_may_start(step.plan, step.wave.id, limits.max_hours)
        _check_ends_in_time(step, limits.until)
        freeze = None if is_rollback else _freeze(step, plan)
        if freeze is None:
            return
        at_seconds = time.monotonic()
        if patience.is_over(at_seconds):
            raise StillMoving(f"{step.name} is not started: {freeze}")
        if every_minute.take_turn(at_seconds):
            step.say(f"{step.name} waits: {freeze}")
        time.sleep(_WAIT_SECONDS)
        step.check_in_charge()


def _freeze(step: Execution, plan: Plan) -> str | None:
    """Why the wave may not copy now, if only rules approved the plan; None if it may."""
    if any(not row.get("rules") for row in plan.approvals):
        return None
    _, seconds = wave_ends(step.warehouse, step.plan).get(step.wave.number, (0, estimated_seconds(step)))
    return frozen_by(plan.approvals, period_of(datetime.now(tz=UTC), seconds))


def estimated_seconds(step: Execution) -> float:
    """The approved estimate of a wave; 0 for a rollback, which has none."""
    return predicted_seconds(step.plan, step.wave) or 0.0


def dry_run(step: Execution, waves: Sequence[Wave], limits: Limits) -> None:
    """Say every change that the waves would make to the cluster as it is now; change nothing."""
    plan, ledger = step.plan, step.ledger
    hold = ledger.holder
    begins = hold.wave if hold and hold.is_of(plan) and not hold.wave.is_rollback else WaveId(limits.first)
    refused = refusals(
        lambda: ledger.check_free(plan, begins),
        lambda: ledger.check_may_start(plan, begins, limits.max_hours),
    )
    is_first = True
    for wave in waves[limits.first - 1 : limits.last]:
        of_wave = step.on(wave, waves[: wave.number - 1])
        now = without_held(step.journal, plan, wave, of_wave.observe_settled())
        if say_changes(of_wave, now, refused, is_first=is_first):
            refused, is_first = [], False
    if limits.last >= step.plan.last_between_brokers:
        step.say("would elect the first replica of each planned list")


def refusals(*checks: Callable[[], None]) -> list[str]:
    """The problems for which checks would refuse."""
    lines: list[str] = []
    for check in checks:
        try:
            check()
        except Refused as refused:
            lines += refused.problems
    return lines


def say_changes(step: Execution, now: Observed, refused: Sequence[str], *, is_first: bool) -> bool:
    """Say every change that a wave would make to the cluster in this state; returns whether there is anything to do.

    Parameters
    ----------
    refused : sequence of str
        Problems for which the command would not begin the wave.
    is_first : bool
        Whether no earlier wave has anything to do.
    """
    step.say(f"{step.name}: {describe_state(step.wave, now)}")
    step.say_skips(now)
    for line in describe_misplaced(step.misplaced(now)) if step.fix_dirs else ():
        step.say(f"would correct {line}")
    if is_over(step, now):
        return False
    problems = step.problems(now, ())
    # A later wave may need room that an earlier one frees: only the first one is compared with the disks of now.
    room = step.without_room(now) if is_first else []
    for line in (*refused, *problems, *step.at_risk(now), *room):
        step.say(f"problem: {line}")
    for line in step.cordons.changes(now) if is_first else ():
        step.say(line)
    for key, (operation, value) in to_set(settable(step.wave.entries(now), now), now.throttles).items():
        step.say(f"would {operation.lower()} {describe(key, value or '')}")
    waiting = step.wave.by_state(now)[MoveState.NOT_STARTED]
    for line in announcements(step.wave, waiting):
        step.say(line)
    for partition in waiting:
        before, after = step.wave.before[partition], step.wave.after[partition]
        if not step.wave.inside:
            step.say(f"would move {preflight.partition_names([partition])} from {list(before)} to {list(after)}")
        for line in describe_moves(step.wave, partition, now):
            step.say(line)
    step.say(f"would remove {plural(len(step.wave.throttles), 'throttle')} when the copies are done")
    return True
