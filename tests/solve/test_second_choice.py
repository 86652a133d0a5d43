"""Other lists for partitions whose planned change was removed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import FIXED, FORCED_ONLY, FREE, RACKS_ONLY, Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.limit.second_choice import second_choices
from optimizer.solve.rules.pins import group_by_pins, must_leave, rack_breaks
from optimizer.solve.rules.urgency import BALANCE, urgency
from tests.solve.clusters import STATES, make_brokers, make_cluster, make_partitions, pinned, with_states

ANY = np.array([NO_LIMIT, NO_LIMIT])


@pytest.mark.parametrize(
    ("frees_disk", "lists", "unrepaired"),
    [(True, [[2, 1], [0, 3]], [False, False]), (False, [[2, 1], [2, 3]], [False, True])],
)
def test_space_that_a_second_choice_frees_serves_the_next(
    frees_disk: bool, lists: list[list[int]], unrepaired: list[bool]
) -> None:
    """Both partitions are in one rack. Only broker 2 has space; broker 0 has some once the first partition left it."""
    partitions = make_partitions([[0, 1], [2, 3]], [5, 5])
    chosen, held_back = second_choices(
        make_brokers([0, 0, 1, 1]),
        partitions,
        np.zeros(2, dtype=bool),
        planned=partitions.replicas,
        unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
        room_bytes=np.array([0.0, 0.0, 5.0, 0.0]),
        allowed=ANY,
        frees_disk=frees_disk,
    )
    assert chosen.tolist() == lists
    assert held_back.tolist() == unrepaired


def test_an_excluded_partition_leaves_a_broker_to_empty_and_keeps_its_other_replicas() -> None:
    """Both partitions break the rack rule as before; only the replica on broker 0, which is emptied, moves."""
    partitions = make_partitions([[0, 1, 2], [1, 2, 3]], [5, 5])
    brokers = make_brokers([0, 0, 1, 1, 2])
    chosen, held_back = second_choices(
        replace(brokers, must_empty=np.arange(5) == 0, accepts_replicas=np.arange(5) != 0),
        replace(partitions, mobility=np.full(2, FORCED_ONLY)),
        np.zeros(2, dtype=bool),
        planned=partitions.replicas,
        unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
        room_bytes=np.array([0.0, 0.0, 0.0, 5.0, 0.0]),
        allowed=ANY,
        frees_disk=True,
    )
    assert chosen.tolist() == [[3, 1, 2], [1, 2, 3]]
    assert held_back.tolist() == [False, False]


@dataclass(frozen=True)
class Removed:
    """Partitions whose planned change was removed or kept, others of their topics, and the space that there is."""

    brokers: Brokers
    partitions: Partitions
    kept: Bools
    planned: Ints
    unchanged: Partitions
    room_bytes: Floats
    most_bytes: Floats
    allowed: Ints

    @property
    def without(self) -> Ints:
        """The lists without second choices, (P, W)."""
        return np.where(self.kept[:, None], self.planned, self.partitions.replicas)

    def chosen(self, *, frees_disk: bool) -> tuple[Ints, Bools]:
        """The second choices."""
        return second_choices(
            self.brokers,
            self.partitions,
            self.kept,
            planned=self.planned,
            unchanged=self.unchanged,
            room_bytes=self.room_bytes,
            allowed=self.allowed,
            frees_disk=frees_disk,
            most_bytes=self.most_bytes,
        )

    def broken(self, lists: Ints) -> Ints:
        """Replicas of each partition that break a rule which the partition may follow, (P,)."""
        groups = group_by_pins(self.brokers, self.partitions.topic)
        leaving = must_leave(self.brokers, self.partitions, groups, lists).sum(axis=1)
        racks = rack_breaks(self.brokers, self.partitions, lists)
        mobility = self.partitions.mobility
        return np.where(mobility == RACKS_ONLY, 0, leaving) + np.where(mobility == FORCED_ONLY, 0, racks)

    def sets_within(self, p: int) -> Iterator[list[int]]:
        """Every list of live brokers that a partition alone can get within all limits."""
        old, size = [b for b in self.partitions.replicas[p].tolist() if b >= 0], int(self.partitions.size_bytes[p])
        group = group_by_pins(self.brokers, self.partitions.topic)
        may_take = self.brokers.accepts_replicas & group.allowed[group.of[p]] & (self.room_bytes >= max(size, 1))
        may_take &= self.most_bytes >= size
        copies = min(int(self.allowed[1]), int(self.allowed[0]) // max(size, 1))
        leaves = must_leave(self.brokers, self.partitions, group, self.partitions.replicas)[p]
        for hosts in combinations(range(len(self.brokers)), len(old)):
            new, gone = set(hosts) - set(old), [slot for slot, b in enumerate(old) if b not in hosts]
            is_allowed = self.partitions.mobility[p] != FORCED_ONLY or leaves[gone].all()
            if may_take[[*new]].all() and len(new) <= copies and is_allowed and self.brokers.is_live[[*hosts]].all():
                yield [*hosts]


def removed_changes(seed: int, most: int = 8) -> Removed:
    """Some partitions on brokers in every kind of trouble, also the first one; sizes of 0, factors that change, pins,
    ties, disks over their limit, and limits on bytes, on copies, on replicas of a topic and in a log directory."""
    draws = np.random.default_rng(seed)
    n, count, length = int(draws.integers(5, 8)), int(draws.integers(1, most + 1)), int(draws.choice([1, 2, 2, 3, 4]))
    states = draws.choice(["alive", *STATES], n, p=[0.5, *[0.5 / len(STATES)] * len(STATES)]).tolist()
    racks = int(draws.integers(2, 4))
    brokers = with_states(
        make_brokers([b % racks for b in range(n)]), [str(draws.choice(["dead", "alive"])), *states[1:]]
    )
    before, planned, others = (
        np.array([draws.permutation(n)[:length] for _ in range(k)]).reshape(k, length) for k in (count, count, 3)
    )
    partitions = make_partitions(before.tolist(), draws.choice([0, 3, 3, 9], count).tolist())
    limit = int(draws.choice([NO_LIMIT, NO_LIMIT, 2, 3, 4]))
    change, mobility = [0] * 18 + [1, -1], [FREE] * 6 + [FORCED_ONLY, RACKS_ONLY, FIXED]
    waits = (~brokers.is_live & ~brokers.must_empty)[before].any(axis=1)  # for a fenced broker, as in the snapshot
    partitions = replace(
        partitions,
        mobility=np.where(waits, FIXED, draws.choice(mobility, count)),
        replication_factor=np.maximum(length + draws.choice(change, count), 1),
        topic_most_replicas=np.full(count, limit),
    )
    cluster = make_cluster(brokers, partitions)
    if draws.random() < 0.3:
        pin = sorted(draws.choice(n, 4, replace=False).tolist())
        cluster = pinned(cluster, {"a": pin}, ["a", *["t"] * (count - 1)])
    is_alone = most == 1
    return Removed(
        cluster.brokers,
        cluster.partitions,
        kept=(draws.random(count) < 0.2) & (not is_alone),
        planned=planned,
        unchanged=replace(make_partitions(others.tolist(), [1] * 3), topic_most_replicas=np.full(3, limit)).rows(
            np.arange(0 if is_alone else int(draws.integers(0, 4)))
        ),
        room_bytes=draws.choice([-3.0, 0.0, 3.0, 9.0, 12.0, 12.0], n),
        most_bytes=draws.choice([3.0, np.inf, np.inf], n),
        allowed=np.array(
            [draws.choice([0, 6, 12, NO_LIMIT, NO_LIMIT]), draws.choice([0, 1, 2, 3, NO_LIMIT, NO_LIMIT])]
        ),
    )


def hosted(lists: Ints, weights: Ints, n_brokers: int) -> Ints:
    """The sum of the weights of what each broker holds, (B,)."""
    row, slot = np.nonzero(lists >= 0)
    return np.bincount(lists[row, slot], weights[row], n_brokers).astype(np.int64)


def cases_of(seed: int, most: int = 8) -> Iterator[Removed]:
    """Ten cases of a seed: few of them leave second choices that could break a limit."""
    return (removed_changes(10 * seed + number, most) for number in range(10))


def assert_rules_and_limits(case: Removed, *, frees_disk: bool) -> None:
    """Second choices break no rule and no limit."""
    brokers, partitions, n, before = case.brokers, case.partitions, len(case.brokers), case.without
    lists, held_back = case.chosen(frees_disk=frees_disk)
    changed = (lists != before).any(axis=1)
    assert not np.isin(partitions.mobility[changed], [FIXED]).any()
    assert (partitions.replication_factor[changed] == before.shape[1]).all()
    assert (urgency(brokers, partitions).levels[changed] < BALANCE).all()
    assert (case.broken(lists)[changed] < case.broken(before)[changed]).all()
    assert not changed[case.kept].any()
    is_whole = case.kept | (case.broken(lists) == 0)
    assert not held_back[case.kept].any()
    assert held_back[~case.kept & (urgency(brokers, partitions).levels == BALANCE)].all()
    assert (held_back | is_whole).all()
    assert not held_back[changed & is_whole].any()
    groups = group_by_pins(brokers, partitions.topic)
    for p in np.flatnonzero(changed):
        old, new = set(before[p].tolist()), set(lists[p].tolist())
        assert len(new) == len(old)
        assert brokers.is_live[[*new]].all()
        assert (brokers.accepts_replicas & groups.allowed[groups.of[p]])[[*new - old]].all()
    arrives, leaves = (
        np.where((a[:, :, None] != b[:, None, :]).all(axis=2), a, -1) for a, b in ((lists, before), (before, lists))
    )
    freed = hosted(leaves, partitions.size_bytes, n) if frees_disk else np.zeros(n)
    assert (hosted(arrives, partitions.size_bytes, n) <= np.maximum(case.room_bytes, 0) + freed).all()
    sizes = np.broadcast_to(partitions.size_bytes[:, None], arrives.shape)
    assert frees_disk or (sizes <= case.most_bytes[arrives])[arrives >= 0].all()
    copies = (arrives >= 0).sum(axis=1)
    assert (np.array([(copies * partitions.size_bytes).sum(), copies.sum()]) <= case.allowed).all()
    for topic in set(partitions.topic):
        rows, others = partitions.topic == topic, case.unchanged.replicas[case.unchanged.topic == topic]
        held_before, held = (
            hosted(np.concatenate([x[rows], others]), np.ones(rows.sum() + len(others), dtype=np.int64), n)
            for x in (before, lists)
        )
        assert (held <= np.maximum(partitions.topic_most_replicas[0], held_before)).all()


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_second_choices_keep_every_rule_and_limit(seed: int, frees_disk: bool) -> None:
    """A new list has the old length, on other live brokers that accept it and have space, and breaks fewer rules;
    together they copy what is allowed; a partition is held back as long as a rule is broken."""
    for case in cases_of(seed):
        assert_rules_and_limits(case, frees_disk=frees_disk)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_partition_that_can_be_repaired_is(seed: int) -> None:
    """If a list that space and limits allow breaks no rule the partition is not held back; it is if there is none."""
    for case in cases_of(seed, most=1):
        brokers, partitions = case.brokers, case.partitions
        may_move = [FREE, FORCED_ONLY, *([RACKS_ONLY] if brokers.is_live[partitions.replicas].all() else [])]
        is_urgent = urgency(brokers, partitions).levels[0] < BALANCE
        is_resized = partitions.replication_factor[0] != partitions.replicas.shape[1]
        if is_urgent and not is_resized and partitions.mobility[0] in may_move:
            clean = [x for x in map(np.array, case.sets_within(0)) if not case.broken(x[None]).any()]
            held_back = case.chosen(frees_disk=False)[1][0]
            assert held_back or clean
            assert not held_back or all(rack_breaks(brokers, partitions, x[None]) for x in clean)


def test_small_partitions_come_first_and_the_emptiest_broker_takes_them() -> None:
    """All are in one rack, and 9 bytes may be copied: the large partition waits; of equal ones the first comes first,
    and so does of brokers with equal space."""
    partitions = make_partitions([[0, 1]] * 4, [9, 3, 3, 3])
    lists, held_back = second_choices(
        make_brokers([0, 0, 1, 1, 1]),
        partitions,
        np.zeros(4, dtype=bool),
        planned=partitions.replicas,
        unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
        room_bytes=np.array([0.0, 0.0, 9.0, 12.0, 12.0]),
        allowed=np.array([9, NO_LIMIT]),
        frees_disk=False,
    )
    assert lists.tolist() == [[0, 1], [3, 1], [4, 1], [2, 1]]
    assert held_back.tolist() == [True, False, False, False]


def test_a_replica_that_leaves_makes_room_for_another_of_its_topic() -> None:
    """A broker may have one replica of the topic: broker 0 takes one once its own has left for broker 4."""
    partitions = make_partitions([[0, 1], [2, 3]], [3, 3])
    partitions = replace(partitions, topic_most_replicas=np.ones(2, dtype=np.int64))
    lists, _ = second_choices(
        make_brokers([0, 0, 1, 1, 1]),
        partitions,
        np.zeros(2, dtype=bool),
        planned=partitions.replicas,
        unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
        room_bytes=np.full(5, 9.0),
        allowed=ANY,
        frees_disk=False,
    )
    assert lists.tolist() == [[4, 1], [0, 3]]
