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
        copies = min(int(self.allowed[1]), int(self.allowed[0]) // max(size, 1))
        leaves = must_leave(self.brokers, self.partitions, group, self.partitions.replicas)[p]
        for hosts in combinations(range(len(self.brokers)), len(old)):
            new, gone = set(hosts) - set(old), [slot for slot, b in enumerate(old) if b not in hosts]
            is_allowed = self.partitions.mobility[p] != FORCED_ONLY or leaves[gone].all()
            if may_take[[*new]].all() and len(new) <= copies and is_allowed and self.brokers.is_live[[*hosts]].all():
                yield [*hosts]


@st.composite
def removed_changes(draw: st.DrawFn, most: int = 4, unchanged: int = 2) -> Removed:
    """A few partitions on brokers in every kind of trouble, also the first one; sizes of 0, factors that change, pins,
    ties, disks over their limit, and limits on bytes, on copies and on replicas of a topic."""
    n, count, racks = draw(st.integers(4, 6)), draw(st.integers(1, most)), draw(st.integers(2, 3))
    states = draw(st.lists(st.sampled_from(("alive", *STATES)), min_size=n, max_size=n))
    states[0] = draw(st.sampled_from(["dead", "alive"]))  # the lowest id is the index 0
    brokers = with_states(make_brokers([b % racks for b in range(n)]), states)
    length = draw(st.integers(1, 4))
    lists = st.permutations(range(n)).map(lambda order: order[:length])
    before, planned, others = (
        np.array(draw(st.lists(lists, min_size=k, max_size=k)), dtype=np.int64).reshape(k, length)
        for k in (count, count, draw(st.integers(0, unchanged)))
    )
    partitions = make_partitions(
        before.tolist(), draw(st.lists(st.sampled_from([0, 3, 9]), min_size=count, max_size=count))
    )

    def each(*values: int) -> Ints:
        return np.array(draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)))

    limit = draw(st.sampled_from([NO_LIMIT, 1, 2]))
    partitions = replace(
        partitions,
        mobility=each(FREE, FREE, FORCED_ONLY, RACKS_ONLY, FIXED),
        replication_factor=np.maximum(length + each(0, 0, 0, 0, 1, -1), 1),
        topic_most_replicas=np.full(count, limit),
    )
    cluster = make_cluster(brokers, partitions)
    if draw(st.booleans()):
        cluster = pinned(cluster, {"a": draw(st.lists(st.integers(0, n - 1), min_size=3))}, ["a", *["t"] * (count - 1)])
    rest = make_partitions([*others.tolist(), [*range(length)]], [1] * (len(others) + 1)).rows(np.arange(len(others)))
    return Removed(
        cluster.brokers,
        cluster.partitions,
        kept=each(0, 0, 1).astype(bool) if unchanged else np.zeros(count, dtype=bool),
        planned=planned,
        unchanged=replace(rest, topic_most_replicas=np.full(len(rest), limit)),
        room_bytes=np.array(draw(st.lists(st.sampled_from([-3.0, 0.0, 3.0, 9.0, 30.0]), min_size=n, max_size=n))),
        allowed=np.array([draw(st.sampled_from([0, 3, 6, NO_LIMIT])), draw(st.sampled_from([0, 1, 1, 2, NO_LIMIT]))]),
    )


def hosted(lists: Ints, weights: Ints, n_brokers: int) -> Ints:
    """The sum of the weights of what each broker holds, (B,)."""
    row, slot = np.nonzero(lists >= 0)
    return np.bincount(lists[row, slot], weights[row], n_brokers).astype(np.int64)


@settings(max_examples=300, deadline=None)
@given(removed_changes(), st.booleans())
def test_second_choices_keep_every_rule_and_limit(case: Removed, frees_disk: bool) -> None:
    """A new list has the old length, on other live brokers that accept it and have space, and breaks fewer rules;
    together they copy what is allowed; a partition is held back as long as a rule is broken."""
    brokers, partitions, n, before = case.brokers, case.partitions, len(case.brokers), case.without
    lists, held_back = case.chosen(frees_disk=frees_disk)
    changed = (lists != before).any(axis=1)
    assert not np.isin(partitions.mobility[changed], [FIXED]).any()
    assert (partitions.replication_factor[changed] == before.shape[1]).all()
    assert (urgency(brokers, partitions).levels[changed] < BALANCE).all()
    assert (case.broken(lists)[changed] < case.broken(before)[changed]).all()
    assert not changed[case.kept].any()
    assert held_back.tolist() == np.where(changed, case.broken(lists) > 0, ~case.kept).tolist()
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
    copies = (arrives >= 0).sum(axis=1)
    assert (np.array([(copies * partitions.size_bytes).sum(), copies.sum()]) <= case.allowed).all()
    for topic in set(partitions.topic):
        rows, others = partitions.topic == topic, case.unchanged.replicas[case.unchanged.topic == topic]
        held_before, held = (
            hosted(np.concatenate([x[rows], others]), np.ones(rows.sum() + len(others), dtype=np.int64), n)
            for x in (before, lists)
        )
        assert (held <= np.maximum(partitions.topic_most_replicas[0], held_before)).all()


@settings(max_examples=300, deadline=None)
@given(removed_changes(most=1, unchanged=0))
def test_a_partition_that_can_be_repaired_is(case: Removed) -> None:
    """Of every list that space and limits allow, if one breaks no rule the partition is not held back."""
    partitions = case.partitions
    may_move = [FREE, FORCED_ONLY, *([RACKS_ONLY] if case.brokers.is_live[partitions.replicas].all() else [])]
    may_change = partitions.mobility[0] in may_move and urgency(case.brokers, partitions).levels[0] < BALANCE
    if may_change and partitions.replication_factor[0] == partitions.replicas.shape[1]:
        clean = [hosts for hosts in case.sets_within(0) if not case.broken(np.array([hosts])).any()]
        assert case.chosen(frees_disk=False)[1].tolist() == [not clean]
