"""What losses would do, against Kafka's rules for each partition, each failure and each moment of tiny clusters."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.domain import Ints
from optimizer.kafka.partition_state import InFlight, complete, start
from optimizer.schedule.exposed_states import Exposed
from optimizer.schedule.exposure import AFTER, BEFORE, BETWEEN, WHILE, Exposure, exposure
from tests.examples import examples
from tests.kafka_rules.elections import ElectionRules, Partition, fence, needed_in_sync


@dataclass(frozen=True)
class Row:
    """A partition and its plan."""

    partition: Partition
    target: tuple[int, ...]
    wave: int = 0
    min_isr: int = 1
    allows_unclean: bool = False
    load: int = 10
    log: int = 100
    records: int = -1
    unacked: int = 0
    lacking: tuple[int, ...] = ()

    def lacks(self, state: Partition, broker: int, dead: Sequence[int]) -> int:
        """What a replica lacks of the leader's log."""
        if broker == state.leader and broker not in dead:
            return 0
        if broker in dead:
            return self.log
        if broker in state.isr:
            return self.unacked
        return self.measured(broker)

    def measured(self, broker: int) -> int:
        """What a replica out of sync lacks; all, if nobody knows. An eligible one has what followers confirmed."""
        if broker in self.partition.elr and not self.unacked:
            return 0
        return dict(zip(self.partition.replicas, self.lacking, strict=False)).get(broker, self.log)


def row(
    replicas: Sequence[int], target: Sequence[int] = (), *, wave: int = 0, min_isr: int = 1, isr: Sequence[int] = ()
) -> Row:
    """A partition whose leader is the first in-sync replica; all replicas are in sync by default."""
    in_sync = tuple(isr or replicas)
    return Row(Partition(tuple(replicas), in_sync, in_sync[0]), tuple(target or replicas), wave, min_isr)


def matrix(lists: Sequence[Sequence[int]]) -> Ints:
    """Lists padded with -1."""
    width = max(map(len, lists))
    return np.array([[*x, *[-1] * (width - len(x))] for x in lists])


def exposed(
    rows: Sequence[Row], racks: Sequence[int], *, dead: Sequence[int] = (), counts_all: bool = False
) -> Exposed:
    """The arrays of partitions on brokers 0, 1, 2, ... in these racks."""
    replicas = matrix([x.partition.replicas for x in rows])
    isr = np.array([np.isin(replicas[i], x.partition.isr) for i, x in enumerate(rows)])
    elr = np.array([np.isin(replicas[i], x.partition.elr) for i, x in enumerate(rows)])
    return Exposed(
        replicas=replicas,
        in_sync=isr,
        eligible=elr,
        leader=np.array([-1 if x.partition.leader is None else x.partition.leader for x in rows]),
        min_isr=np.array([x.min_isr for x in rows]),
        allows_unclean=np.array([x.allows_unclean for x in rows]),
        load_bytes_per_s=np.array([x.load for x in rows]),
        log_bytes=np.array([x.log for x in rows]),
        log_records=np.array([x.records for x in rows]),
        lacking_bytes=np.where(isr, 0, matrix([[x.measured(b) for b in x.partition.replicas] for x in rows])),
        unacked_bytes=np.array([x.unacked for x in rows]),
        target=matrix([x.target for x in rows]),
        wave=np.array([x.wave for x in rows]),
        rack=np.array(racks),
        is_living=~np.isin(np.arange(len(racks)), dead),
        counts_all=counts_all,
    )


# By partition: its states, the worse of which counts.
States = list[list[Partition]]


def _begun(x: Row) -> Partition:
    moving = start(x.partition.replicas, x.target)
    if not moving.adding and set(x.target) <= set(x.partition.isr):
        return _ended(x)
    return Partition(
        moving.replicas, x.partition.isr, x.partition.leader, elr=x.partition.elr, adding=moving.adding,
        removing=moving.removing,
    )  # fmt: skip


def _ended(x: Row, *, is_elected: bool = False) -> Partition:
    isr = tuple(b for b in x.target if b in x.partition.isr or b not in x.partition.replicas)
    stays = x.partition.leader in isr and not is_elected
    return Partition(x.target, isr, x.partition.leader if stays else isr[0])


def moments(rows: Sequence[Row]) -> list[tuple[str, int, States]]:
    """The partitions' states at every moment, by the rules of ``elections``."""
    last = max(x.wave for x in rows)

    def after(wave: int) -> States:
        return [[_ended(x) if 0 < x.wave <= wave else x.partition] for x in rows]

    result = [(BEFORE, 0, after(0))]
    for wave in range(1, last + 1):
        during = [
            [_begun(x), _ended(x)] if x.wave == wave else states
            for x, states in zip(rows, after(wave - 1), strict=True)
        ]
        result.append((WHILE, wave, during))
        if wave < last:
            result.append((BETWEEN, wave, after(wave)))
    return [*result, (AFTER, 0, [[_ended(x, is_elected=True) if x.wave else x.partition] for x in rows])]


@dataclass(frozen=True)
class Outcome:
    """A partition after a failure."""

    leader: int | None
    is_stopped: bool


def outcome(partition: Partition, x: Row, lost: Sequence[int], dead: Sequence[int], *, counts_all: bool) -> Outcome:
    """The partition after its cluster has lost these brokers, one after the other."""
    down = set(dead)
    has_elr = bool(partition.elr)
    rules = ElectionRules(x.min_isr, has_elr=has_elr, allows_unclean=x.allows_unclean)
    for broker in lost:
        down.add(broker)
        partition = fence(partition, broker, down=down, rules=rules)
    in_sync = len(set(partition.isr) - down)
    needed = needed_in_sync(x.min_isr, len(partition.replicas), counts_all=counts_all)
    return Outcome(partition.leader, partition.leader is None or in_sync < needed)


def _in_flight(partition: Partition, target: Sequence[int], caught_up: int) -> Partition:
    """The partition on its way to the target, some added replicas in sync; unchanged if that is done at once."""
    moving = start(partition.replicas, target)
    isr = (*partition.isr, *moving.adding[:caught_up])
    is_in_flight = moving.adding or moving.removing
    if not is_in_flight or complete(InFlight(moving.replicas, moving.adding, moving.removing), isr):
        return partition
    return Partition(
        moving.replicas, isr, partition.leader, elr=partition.elr, adding=moving.adding, removing=moving.removing
    )


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Row], list[int], list[int], bool]:
    """Rows, racks (-1: none), dead brokers, and whether the old rule of min.insync.replicas holds."""
    n_brokers = draw(st.integers(2, 6))
    racks = [draw(st.integers(-1, 2)) for _ in range(n_brokers)]
    dead = draw(st.lists(st.integers(0, n_brokers - 1), max_size=1))
    living = [b for b in range(n_brokers) if b not in dead]
    lists = st.lists(st.integers(0, n_brokers - 1), min_size=1, max_size=4, unique=True)
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        replicas = draw(lists)
        isr = draw(st.permutations([b for b in replicas if b in living]))
        isr = isr[: draw(st.integers(1, max(len(isr), 1)))]
        min_isr = draw(st.integers(1, 3))
        others = [b for b in replicas if b not in isr and b in living]
        elr = others if isr and len(isr) < min_isr and draw(st.booleans()) else []
        leader = draw(st.sampled_from(isr)) if isr else None
        target = draw(st.lists(st.sampled_from(living), min_size=1, max_size=4, unique=True)) if isr else replicas
        ends_in_sync = any(b in isr or b not in replicas for b in target)
        wave = draw(st.integers(0, 3)) if ends_in_sync and isr else 0
        partition = Partition(tuple(replicas), tuple(isr), leader, elr=tuple(sorted(elr)))
        if isr and not wave and draw(st.booleans()):
            partition = _in_flight(partition, target, draw(st.integers(0, 3)))
        unclean = bool(isr) and draw(st.booleans())
        planned = tuple(target) if wave else partition.replicas
        lags = st.lists(st.integers(0, 100), min_size=len(partition.replicas), max_size=len(partition.replicas))
        logs: dict[str, Any] = {
            "load": draw(st.integers(0, 9)),
            "records": draw(st.sampled_from([-1, 10, 1000])),
            "unacked": draw(st.sampled_from([0, 0, 7])),
            "lacking": tuple(draw(lags)) if draw(st.booleans()) else (),
        }
        rows.append(Row(partition, planned, wave, min_isr, unclean, **logs))
    return rows, racks, dead, draw(st.booleans())


def expected(
    states: States, rows: Sequence[Row], groups: Sequence[Sequence[int]], dead: Sequence[int], *, counts_all: bool
) -> tuple[list[list[int]], list[float], set[int]]:
    """The four counts of each loss, the ratio of each, and the partitions that some loss stops."""
    counts, ratios, some = [], [], set[int]()
    held = {b for options in states for b in options[0].replicas} - set(dead)
    for lost in groups:
        sums, load = [0, 0, 0, 0], dict.fromkeys(held - set(lost), 0)
        for number, (x, options) in enumerate(zip(rows, states, strict=True)):
            now = [outcome(state, x, (), dead, counts_all=counts_all) for state in options]
            now_offline = any(_leader(state, x, dead) is None for state in options)
            now_stopped = any(y.is_stopped for y in now) or now_offline
            ends = [outcome(state, x, lost, dead, counts_all=counts_all) for state in options]
            stopped = any(y.is_stopped for y in ends) and not now_stopped
            sums[0] += any(y.leader is None for y in ends) and not now_offline
            sums[1] += stopped
            sums[2] += any(set(state.isr) & set(lost) for state in options)
            sums[3] += any(_leader(state, x, dead) in lost for state in options)
            if ends[0].leader is not None:
                load[ends[0].leader] = load.get(ends[0].leader, 0) + x.load
            if stopped:
                some.add(number)
        counts.append(sums)
        total = sum(load.values())
        ratios.append(max(load.values()) * len(held - set(lost)) / total if total else float("nan"))
    return counts, ratios, some


def lost_bytes(state: Partition, x: Row, lost: Sequence[int], dead: Sequence[int], *, in_turn: bool) -> int:
    """Bytes that the leader had and the last leader has not; with ``in_turn`` each leader in between counts too."""
    now, down, gone, leader = state, set(dead), 0, _leader(state, x, dead)
    if leader is None:
        return 0
    rules = ElectionRules(x.min_isr, has_elr=bool(state.elr), allows_unclean=x.allows_unclean)
    for number, broker in enumerate(lost, 1):
        down.add(broker)
        now = fence(now, broker, down=down, rules=rules)
        counts = in_turn or number == len(lost)
        if counts and now.leader is not None and now.leader != leader:
            leader = now.leader
            gone = max(gone, x.lacks(state, leader, dead))
    return gone


def expected_bytes(
    states: States, rows: Sequence[Row], groups: Sequence[Sequence[int]], dead: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """The bytes that each loss loses, their records, and the bytes that no other living replica has."""
    lost, records, sole = ([0] * len(groups) for _ in range(3))
    for number, group in enumerate(groups):
        for x, options in zip(rows, states, strict=True):
            gone = max(lost_bytes(state, x, group, dead, in_turn=False) for state in options)
            lost[number] += gone
            if records[number] < 0 or (gone and x.records < 0):
                records[number] = -1
            else:
                records[number] += round(gone * (x.records / x.log))
            sole[number] += max(
                0
                if _leader(state, x, dead) is None
                else max(gone, min((x.lacks(state, b, dead) for b in state.replicas if b not in group), default=x.log))
                for state in options
            )
    return lost, records, sole


def worst_in_turn(
    states: States, rows: Sequence[Row], living: Sequence[int], dead: Sequence[int], *, counts_all: bool
) -> tuple[tuple[int, int], int, int, int]:
    """The worst of all losses of two brokers in turn: they, what stops, what is offline, and what is lost."""
    best: tuple[tuple[int, int, int], tuple[int, int]] | None = None
    for pair in permutations(living, 2):
        sums = [0, 0, 0]
        for x, (state,) in zip(rows, states, strict=True):
            now, end = (outcome(state, x, lost, dead, counts_all=counts_all) for lost in ((), pair))
            sums[0] += end.is_stopped and not now.is_stopped
            sums[1] += end.leader is None and _leader(state, x, dead) is not None
            sums[2] += lost_bytes(state, x, pair, dead, in_turn=True)
        if best is None or tuple(sums) > best[0]:
            best = (sums[0], sums[1], sums[2]), pair
    assert best is not None
    return best[1], *best[0]


def without_loss(states: States, rows: Sequence[Row], dead: Sequence[int], *, counts_all: bool) -> tuple[int, set[int]]:
    """Partitions without a leader although nothing fails, and those without writes."""
    offline, stopped = 0, set[int]()
    for number, (x, options) in enumerate(zip(rows, states, strict=True)):
        now = [outcome(state, x, (), dead, counts_all=counts_all) for state in options]
        offline += any(y.leader is None for y in now)
        if any(y.is_stopped for y in now):
            stopped.add(number)
    return offline, stopped


def _leader(state: Partition, x: Row, dead: Sequence[int]) -> int | None:
    return state.leader if state.leader is not None and state.leader not in dead else None


@settings(max_examples=examples(300), deadline=None)
@given(clusters())
def test_every_failure_at_every_moment(case: tuple[list[Row], list[int], list[int], bool]) -> None:
    """Each loss of a broker or a rack, and no loss, does what Kafka's rules do to each partition at every moment."""
    rows, racks, dead, counts_all = case
    found = exposure(exposed(rows, racks, dead=dead, counts_all=counts_all))
    every = moments(rows)
    assert [(m.name, m.wave) for m in found.moments] == [(name, wave) for name, wave, _ in every]
    by_rack = [[b for b, rack in enumerate(racks) if rack == r] for r in range(max(racks) + 1)]
    stopped_now, stopped_by_some = [], []
    for moment, (_, _, states) in zip(found.moments, every, strict=True):
        stopped_by_some.append(set[int]())
        for losses, groups in ((moment.brokers, [[b] for b in range(len(racks))]), (moment.racks, by_rack)):
            counts, ratios, some = expected(states, rows, groups, dead, counts_all=counts_all)
            sums = (losses.offline, losses.stopped, losses.under_replicated, losses.leaders_moved)
            assert np.stack(sums, axis=1).tolist() == counts
            assert losses.busiest_over_mean == pytest.approx(ratios, nan_ok=True)
            assert losses.stopped_by_some == len(some)
            in_bytes = (losses.lost_bytes, losses.lost_records, losses.sole_bytes)
            assert tuple(x.tolist() for x in in_bytes) == expected_bytes(states, rows, groups, dead)
            stopped_by_some[-1] |= some
        offline, stopped = without_loss(states, rows, dead, counts_all=counts_all)
        assert (moment.offline, moment.stopped) == (offline, len(stopped))
        living = [b for b in range(len(racks)) if b not in dead]
        if moment.name in (BEFORE, AFTER) and len(living) > 1:
            pair = moment.in_turn
            assert pair is not None
            worst = worst_in_turn(states, rows, living, dead, counts_all=counts_all)
            assert (pair.brokers, pair.stopped, pair.offline, pair.lost_bytes) == worst
        else:
            assert moment.in_turn is None
        _, (ratio,), _ = expected(states, rows, [()], dead, counts_all=counts_all)
        assert moment.busiest_over_mean == pytest.approx(ratio, nan_ok=True)
        stopped_now.append(stopped)
    meanwhile = {
        number
        for (name, wave, _), stopped in zip(every, stopped_now, strict=True)
        for number in stopped
        if name == WHILE and rows[number].wave == wave
    }
    assert set(np.flatnonzero(found.stops).tolist()) == meanwhile - stopped_now[0]
    assert set(np.flatnonzero(found.newly_exposed).tolist()) == stopped_by_some[-1] - stopped_by_some[0]


def stopped(found: Exposure) -> list[tuple[int, int, int]]:
    """Partitions stopped without a loss, by the worst broker, and by the worst rack, at each moment."""
    return [
        (m.stopped, int(m.brokers.stopped[m.brokers.worst]), int(m.racks.stopped[m.racks.worst])) for m in found.moments
    ]


def test_a_single_replica_that_moves_takes_no_writes() -> None:
    """With min.insync.replicas 2, a list of one replica takes writes, until a second one is added to it."""
    found = exposure(exposed([row([0], [1], wave=1, min_isr=2), row([0, 1], min_isr=2)], [0, 1]))
    assert found.stops.tolist() == [True, False]
    assert [moment.stopped for moment in found.moments] == [0, 1, 0]
    assert stopped(found)[-1] == (0, 2, 2)


def test_before_3_7_a_short_list_never_takes_writes() -> None:
    """The whole of min.insync.replicas is needed, so the wave stops nothing that was not stopped."""
    found = exposure(exposed([row([0], [1], wave=1, min_isr=2)], [0, 1], counts_all=True))
    assert [moment.stopped for moment in found.moments] == [1, 1, 1]
    assert not found.stops.any()


def test_newly_exposed_partitions_are_a_set() -> None:
    """A partition in three racks that ends in two is newly exposed; one that any loss stopped before is not."""
    rows = [row([0, 1, 2], [0, 1, 4], wave=1, min_isr=2), row([0, 1], [0, 2], wave=1, min_isr=2)]
    found = exposure(exposed(rows, [0, 1, 2, 0, 0]))
    assert found.newly_exposed.tolist() == [True, False]
    assert [(m.brokers.stopped_by_some, m.racks.stopped_by_some) for m in found.moments] == [(1, 1), (1, 2), (1, 2)]


def test_the_worst_loss_is_the_first_of_equals() -> None:
    """Most stopped writes, then most partitions offline, then the busiest leader; then the smallest id."""
    found = exposure(exposed([row([0]), row([1]), row([2, 0])], [0, 1, 2]))
    assert found.moments[0].brokers.worst == 0
    assert found.moments[0].brokers.stopped.tolist() == [1, 1, 0]
