"""Compares a cluster, or a later snapshot of it, with all waves of a plan: whether to go on or to plan again."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from execution import moves, preflight
from execution.directories import Misplaced, describe_misplaced, misplaced
from execution.held import with_own_rates
from execution.journal import Hold, Ledger, events, fold
from execution.observed import Observed, Place, Stored, Throttle, TopicPartition
from execution.planned import Plan, describe_revocation, in_words
from execution.steps import Incomplete, StillMoving
from execution.stored_snapshot import Snapshot
from execution.throttles import describe, elements_of, is_foreign, is_list
from execution.wave import MoveState, Wave
from optimizer.kafka.throttle import LOG_DIR_RATE
from optimizer.units import agree, clause, first_of, plural
from stored.tables import Warehouse

_NOT_COMPARED = "not compared"
DONE, GO_ON, PLAN_AGAIN = "done", "go on", "plan again"
# Exit codes: those of ./ballast run for copies that still run, and for work that has ended, but not as planned.
_EXIT_CODES = {DONE: 0, GO_ON: StillMoving.exit_code, PLAN_AGAIN: Incomplete.exit_code}
_WORDS = {
    MoveState.DONE: "done",
    MoveState.IN_FLIGHT: "moving",
    MoveState.NOT_STARTED: "not started",
    MoveState.RECREATED: "recreated",
    MoveState.DELETED: "gone",
    MoveState.OTHER: "drifted",
}


@dataclass(frozen=True)
class Verification:
    """What has become of a plan.

    Parameters
    ----------
    compared_with : str
        The cluster now, or the snapshot of a later run.
    partitions : mapping of state to count
        The partitions that the plan changes. They are not compared if their directories are not in the snapshot.
    skipped : list of str
        Partitions that the plan cannot move any more, with the reasons.
    others : mapping of kind to list of (topic, partition), or None
        All other partitions that are drifted, gone or new; None if the plan's snapshot was deleted from the tables.
    not_led : int
        Partitions that are done, but not led by their first replica.
    misplaced : list of Misplaced, or None
        Replicas in other directories than planned, of partitions that are done; None if their directories are unknown.
    holder : str or None
        The wave that holds the cluster.
    revoked : str or None
        Who revoked the approval of the plan, and when, if nobody has approved it since.
    throttles_left : mapping of wave to throttles
        Throttles of the plan that are set although no wave holds the cluster.
    foreign_throttles : list of str
        Throttles that are neither the plan's nor were set at its snapshot.
    throttles_unknown : str or None
        Which throttles are unknown, and why.
    conclusion : str
        done, go on, or plan again.
    reasons : list of str
        Why to plan again.
    to_do : list of str
        The commands to go on with; or what to do before a new plan.
    """

    cluster_id: str
    run_id: str
    waves: int
    compared_with: str
    partitions: Mapping[str, int]
    skipped: list[str]
    others: Mapping[str, list[TopicPartition]] | None
    not_led: int
    misplaced: list[Misplaced] | None
    holder: str | None
    revoked: str | None
    throttles_left: Mapping[int, list[str]]
    foreign_throttles: list[str]
    throttles_unknown: str | None
    conclusion: str
    reasons: list[str]
    to_do: list[str]

    @property
    def exit_code(self) -> int:
        """0 if the plan is done, 4 if it can go on, 6 if a new plan is needed."""
        return _EXIT_CODES[self.conclusion]

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({**asdict(self), "exit_code": self.exit_code})

    def lines(self) -> Iterator[str]:
        """For people."""
        waves = plural(self.waves, "wave")
        yield f"cluster {self.cluster_id}: run {self.run_id}, {waves}, compared with {self.compared_with}"
        counts = [f"{count} {state}" for state, count in self.partitions.items() if count]
        yield f"{plural(sum(self.partitions.values()), 'partition')} in the plan: {', '.join(counts)}"
        yield from (f"skipped: {line}" for line in self.skipped)
        if self.others is None:
            yield "other partitions are not compared: the snapshot of the plan was deleted from table instance"
        for kind, some in (self.others or {}).items():
            if some:
                yield f"other partitions, {kind}: {len(some)} ({preflight.partition_names(some)})"
        if self.not_led:
            yield f"{clause(self.not_led, 'partition', 'is', 'are')} done, but not led by the first replica"
        if count := self.partitions.get(_NOT_COMPARED):
            are, their = clause(count, "partition", "is", "are"), agree(count, "its", "their")
            yield f"{are} not compared: this snapshot does not have the directories of {their} replicas"
        if self.misplaced is None:
            yield "directories are not compared: the inputs of this snapshot have none"
        yield from describe_misplaced(self.misplaced or ())
        if self.holder:
            yield self.holder
        if self.revoked:
            yield self.revoked
        for wave, throttles in self.throttles_left.items():
            names = first_of(throttles)
            yield f"throttles of wave {wave} are set, but no wave holds the cluster: {len(throttles)} ({names})"
        if self.foreign_throttles:
            names = first_of(self.foreign_throttles)
            yield f"throttles that somebody else has set since the snapshot: {len(self.foreign_throttles)} ({names})"
        if self.throttles_unknown:
            yield self.throttles_unknown
        yield f"{self.conclusion}{self._because()}"

    def _because(self) -> str:
        if self.conclusion == DONE:
            limit = "that was compared " if self.partitions.get(_NOT_COMPARED) else ""
            return f": everything {limit}is as planned"
        to_do = "; then ".join(self.to_do)
        if self.conclusion == GO_ON:
            return f": {to_do}"
        return f": {'; '.join(self.reasons)}{f'. Before that: {to_do}' if to_do else ''}"


def joined(waves: Sequence[Wave]) -> Wave:
    """One wave with the partitions of all waves, to find their states; it has no throttles."""
    before = {partition: brokers for wave in waves for partition, brokers in wave.before.items()}
    after = {partition: brokers for wave in waves for partition, brokers in wave.after.items()}
    log_dirs = {replica: path for wave in waves for replica, path in wave.log_dirs.items()}
    inside = {replica: move for wave in waves for replica, move in wave.inside.items()}
    whole = replace(waves[0], before=before, after=after, log_dirs=log_dirs, inside=inside)
    return replace(whole, throttles={}, documents={})


def verify(
    warehouse: Warehouse,
    plan: Plan,
    waves: Sequence[Wave],
    planned_from: Mapping[TopicPartition, tuple[int, ...]],
    snapshot: Snapshot,
) -> Verification:
    """Compare a state of the cluster with a plan.

    Parameters
    ----------
    waves : sequence of Wave
        All waves of the plan.
    planned_from : mapping of (topic, partition) to brokers
        All partitions of the plan's snapshot; empty if it was deleted.
    snapshot : Snapshot
        The state to compare.
    """
    rows, until = events(warehouse, cluster_id=plan.cluster_id), snapshot.captured_at
    newest = fold(rows)
    ledger = newest if until is None else fold(row for row in rows if row["happened_at"] <= until)
    holder = ledger.holder
    own = holder if holder and holder.is_of(plan) else None
    back = ledger.rollback_of(plan)
    now = snapshot.state
    if own and own.wave.is_rollback:
        now = _gone_back(waves[own.wave.number - 1], now)
    unknown = set() if snapshot.is_live else _unknown_places(joined(waves), now)
    waves = [_without(wave, unknown) for wave in waves]
    whole = joined(waves)
    by_state = whole.by_state(now)
    waves = [with_own_rates(ledger.hold_of(plan, wave.id), wave) for wave in waves]
    others = _others(whole, planned_from, now) if planned_from else None
    not_led_count = len(moves.not_led(whole.new_lists, now))
    wrong = _misplaced(whole, now, snapshot.directories)
    are_compared = snapshot.has_throttles and (holder is None or (own is not None and not own.wave.is_rollback))
    left = _left(waves, now) if are_compared and own is None else {}
    unfinished = [wave.number for wave in waves if preflight.unfinished([wave], now)]
    obstacles = [*_differences(whole, others or {}, now)]
    if unfinished and own is None:
        obstacles += _outdated(newest, plan)
    key = f"--run-id {plan.run_id} --cluster {plan.cluster_id}"
    if back and not newest.overtaken_by(plan):  # it needs no approval in force
        conclusion, to_do = GO_ON, [*_offs(key, left), ledger.going_on(plan.cluster_id, plan.run_id)]
    elif obstacles:
        conclusion, to_do = PLAN_AGAIN, [*_endings(plan, own, now), *_offs(key, left)]
    else:
        # run removes the throttles of the waves that it executes, not those of waves that are done.
        over = [number for number in left if number not in unfinished]
        fix = " --fix-dirs" if wrong else ""
        runs = [f"./ballast run {key}{fix}"] if unfinished or own is not None or not_led_count or wrong else []
        if runs and plan.revocation:
            runs = [f"./ballast approve {key}", *runs]
        if own and own.wave.is_rollback:
            runs = [ledger.going_on(plan.cluster_id, plan.run_id)]
        to_do = [*_offs(key, over), *runs]
        conclusion = GO_ON if to_do else DONE
    return Verification(
        cluster_id=plan.cluster_id,
        run_id=plan.run_id,
        waves=len(waves),
        compared_with=snapshot.name,
        partitions={**{word: len(by_state[state]) for state, word in _WORDS.items()}, _NOT_COMPARED: len(unknown)},
        skipped=preflight.skips(whole, now),
        others=others,
        not_led=not_led_count,
        misplaced=wrong,
        holder=holder.describe() if holder else back.describe() if back else None,
        revoked=describe_revocation(plan.revocation) if plan.revocation else None,
        throttles_left=left,
        foreign_throttles=_foreign(waves, now) if are_compared else [],
        throttles_unknown=_unknown(snapshot, are_compared=are_compared),
        conclusion=conclusion,
        reasons=obstacles,
        to_do=to_do,
    )


def _gone_back(wave: Wave, now: Observed) -> Observed:
    """The state when the copies of a wave's rollback have ended."""
    if wave.inside and now.stored:
        stored, moving = now.stored, dict(now.stored.moving)
        ended = {r: old for r, (old, _) in wave.inside.items() if moving.get(r, ("", 0))[0] == old}
        moving = {replica: target for replica, target in moving.items() if replica not in ended}
        return replace(now, stored=replace(stored, log_dirs={**stored.log_dirs, **ended}, moving=moving))
    back = {partition: brokers for partition, brokers in now.in_flight.items() if wave.before.get(partition) == brokers}
    in_flight = {partition: target for partition, target in now.in_flight.items() if partition not in back}
    return replace(now, in_flight=in_flight, replicas={**now.replicas, **back})


def _unknown_places(whole: Wave, now: Observed) -> set[TopicPartition]:
    """The partitions of moves inside brokers whose directories a snapshot does not have."""
    unfinished = whole.by_state(now)[MoveState.IN_FLIGHT]
    return {replica[:2] for replica in whole.replicas_at(now, Place.UNKNOWN)}.intersection(unfinished)


def _without(wave: Wave, partitions: Collection[TopicPartition]) -> Wave:
    """A wave without some partitions that move inside brokers."""
    return replace(
        wave,
        before={partition: brokers for partition, brokers in wave.before.items() if partition not in partitions},
        after={partition: brokers for partition, brokers in wave.after.items() if partition not in partitions},
        inside={replica: move for replica, move in wave.inside.items() if replica[:2] not in partitions},
    )


def _misplaced(whole: Wave, now: Observed, directories: Stored | None) -> list[Misplaced] | None:
    if directories is None:
        return None if whole.log_dirs or whole.inside else []
    return misplaced(whole, now, lambda _: directories)


def _others(
    whole: Wave, planned_from: Mapping[TopicPartition, tuple[int, ...]], now: Observed
) -> dict[str, list[TopicPartition]]:
    """The partitions that the plan does not change, if they are not as in its snapshot; the order does not count."""
    rest = {partition: brokers for partition, brokers in planned_from.items() if partition not in whole.after}
    lists = {partition: now.in_flight.get(partition, brokers) for partition, brokers in now.replicas.items()}
    return {
        "drifted": sorted(p for p, brokers in rest.items() if p in lists and set(lists[p]) != set(brokers)),
        "gone": sorted(rest.keys() - lists.keys()),
        "new": sorted(lists.keys() - planned_from.keys() - whole.after.keys()),
    }


def _differences(whole: Wave, others: Mapping[str, list[TopicPartition]], now: Observed) -> Iterator[str]:
    """Why the plan does not fit the cluster any more. Other topics that are gone change nothing in its waves."""
    if skipped := whole.skipped(now):
        yield f"the plan cannot move {plural(len(skipped), 'partition')} any more"
    if drifted := others.get("drifted"):
        yield f"{clause(len(drifted), 'other partition', 'has', 'have')} other brokers than in the snapshot"
    if new := others.get("new"):
        yield f"{clause(len(new), 'partition', 'is', 'are')} new"


def _outdated(ledger: Ledger, plan: Plan) -> Iterator[str]:
    """Why no wave of the plan may begin, as ``Ledger.check_may_start`` checks it."""
    if wave := ledger.overtaken_by(plan):
        yield f"{wave} was executed after the snapshot of the plan"
    if plan.valid_until and plan.is_expired() and not ledger.has_begun(plan):
        yield f"the plan expired at {in_words(plan.valid_until)}, before any of its waves was executed"


def _endings(plan: Plan, own: Hold | None, now: Observed) -> list[str]:
    """How to end what moves now: a new plan needs a cluster at rest."""
    if own is not None:
        cancel = f"./ballast cancel --cluster {plan.cluster_id}"
        if plan.revocation and not own.wave.is_rollback:
            return [f"cancel {own.wave.name} with {cancel}"]
        command = f"./ballast run --run-id {plan.run_id} --cluster {plan.cluster_id}"
        return [f"let {own.wave.name} end with {command}, or cancel it with {cancel}"]
    moving = len(now.in_flight)
    cancel = agree(moving, "cancel its move", "cancel their moves")
    return [f"wait until {clause(moving, 'partition', 'has', 'have')} moved, or {cancel}"] if moving else []


def _offs(key: str, numbers: Iterable[int]) -> list[str]:
    return [f"./ballast wave off {key} --wave {number}" for number in numbers]


def _left(waves: Sequence[Wave], now: Observed) -> dict[int, list[str]]:
    """Throttles of the plan that are set, by the wave that removes them. Waves may share a rate: one wave has it."""
    result: dict[int, list[Throttle]] = {}
    for is_rate in (False, True):
        keys = [key for key in sorted(now.throttles) if is_list(key) is not is_rate]
        for key in keys:
            owners = [wave.number for wave in waves if _is_left(wave, key, now.throttles[key])]
            if is_rate:  # prefer a wave whose lists are left too: one command removes both
                owners = ([number for number in owners if number in result] or owners)[:1]
            for number in owners:
                result.setdefault(number, []).append(key)
    return {number: [describe(key, now.throttles[key]) for key in keys] for number, keys in sorted(result.items())}


def _is_left(wave: Wave, key: Throttle, value: str) -> bool:
    """Whether a value has something of the wave that was not there at the snapshot."""
    wanted, before = wave.throttles.get(key), wave.previous_throttles.get(key)
    if wanted is None or not is_list(key):
        return wanted is not None and value == wanted != before
    return bool(set(elements_of(value)) & set(elements_of(wanted)) - set(elements_of(before)))


def _foreign(waves: Sequence[Wave], now: Observed) -> list[str]:
    """Throttles that neither the plan nor its snapshot has."""
    before = waves[0].previous_throttles
    result = []
    for key, value in sorted(now.throttles.items()):
        wanted = [wave.throttles[key] for wave in waves if key in wave.throttles]
        if key[2] == LOG_DIR_RATE and not wanted:  # it slows no copy of the plan
            continue
        values = [",".join(wanted)] if is_list(key) else [*wanted, *_own_rates(waves, key)]
        if all(is_foreign(key, value, wanted=each, before=before.get(key)) for each in values or [""]):
            result.append(describe(key, value))
    return result


def _own_rates(waves: Sequence[Wave], key: Throttle) -> list[str]:
    return [value for wave in waves for value in wave.own_rates.get(key, ())]


def _unknown(snapshot: Snapshot, *, are_compared: bool) -> str | None:
    if not snapshot.has_throttles:
        return "throttles are unknown: the inputs of this snapshot have no configs"
    if not are_compared:
        return "throttles are not compared, because they may be of that wave"
    return preflight.describe_silent(snapshot.state.silent) if snapshot.state.silent else None
