"""Consumers: which groups notice the plan, wave by wave, and how evenly their members read."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.consumer_counts import ConsumerCounts, idle_in_words, moved_in_words
from optimizer.emit.rows import ConsumerImpactRow, ConsumerLoadRow
from optimizer.units import agree, clause, first_of, listed, plural

_GROUPS = 50  # rows of a table that is read; the tables have all
_MEMBERS = 100  # the busiest
_SENTENCES = 10  # of a list, about the groups that matter most
_NAMES = 5  # groups of a wave in a line
_WORTH = 0.1  # over the mean: an assignment that is better by less is not worth a change
_PROVEN = 0.005  # over the mean: two decimal places show no difference to the bound
_ASSIGNORS = {"range": "Range", "roundrobin": "RoundRobin"}  # of clients; the broker's range is another


@dataclass(frozen=True)
class WaveReaders:
    """The groups that notice one wave."""

    wave: int
    groups: int
    names: str
    may_rebalance: int
    with_new_leaders: int


@dataclass(frozen=True)
class Readers:
    """The section about consumers.

    Parameters
    ----------
    summary : str
        Who notices the plan.
    groups, hidden : sequence of rows, int
        The groups that notice most, and how many more there are.
    waves : sequence of WaveReaders
    uneven : sequence of str
        Sentences about groups that could share better.
    leaving, idle : sequence of str
        Sentences about what moves if one member leaves, most first, and about groups with members that read nothing.
    members, members_hidden : sequence of rows, int
        The busiest members, and how many more there are.
    """

    summary: str
    groups: Sequence[ConsumerImpactRow]
    hidden: int
    waves: Sequence[WaveReaders]
    uneven: Sequence[str]
    leaving: Sequence[str]
    idle: Sequence[str]
    members: Sequence[ConsumerLoadRow]
    members_hidden: int


def readers(plan: ClusterPlan) -> Readers | None:
    """The section; None if no source is about consumers."""
    counts = plan.consumer_counts
    if counts is None:
        return None
    groups = sorted(plan.consumer_groups, key=_most_noticed)
    members = sorted(plan.consumer_members, key=lambda row: (-(row.in_bytes_per_s or 0), row.group_id, row.member_id))
    return Readers(
        summary=noticed_in_words(counts),
        groups=groups[:_GROUPS],
        hidden=max(len(groups) - _GROUPS, 0),
        waves=[*_waves(plan.consumer_groups)],
        uneven=[*map(_uneven_in_words, _uneven(groups))],
        leaving=[*_leaving(groups)][:_SENTENCES],
        idle=[*_idle(groups, members)][:_SENTENCES],
        members=members[:_MEMBERS],
        members_hidden=max(len(members) - _MEMBERS, 0),
    )


def noticed_in_words(counts: ConsumerCounts) -> str:
    """Which groups notice the plan, and of which nobody knows."""
    parts = []
    if counts.noticing:
        what = [
            f"{number:,} {words}"
            for number, words in (
                (counts.may_rebalance, "may rebalance"),
                (counts.with_new_leaders, agree(counts.with_new_leaders, "gets new leaders", "get new leaders")),
                (counts.read_while_copied, agree(counts.read_while_copied, "reads", "read") + " while copies run"),
            )
            if number
        ]
        parts.append(
            f"{counts.noticing:,} of {plural(counts.reading, 'consumer group')} {_notice(counts)}: {listed(what)}"
        )
    elif counts.reading:
        parts.append(f"{clause(counts.reading, 'consumer group', 'does not', 'do not')} notice the plan")
    if counts.noticing and counts.unaffected:
        parts.append(f"{counts.unaffected:,} {agree(counts.unaffected, 'notices', 'notice')} nothing")
    if counts.without_members:
        parts.append(clause(counts.without_members, "group", "has no members", "have no members"))
    if counts.unknown:
        unknown = f"what the members of {plural(counts.unknown, 'group')} hold is not known"
        parts.append(f"{unknown} (kafka-consumer-groups.sh --describe --members --verbose prints it)")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _notice(counts: ConsumerCounts) -> str:
    return agree(counts.noticing, "notices the plan", "notice the plan")


def _most_noticed(row: ConsumerImpactRow) -> tuple[bool, int, int, int, str]:
    """Groups that nobody knows come last."""
    figures = (row.rack_set_changes if row.may_rebalance else 0, row.leader_changes, row.copied)
    racks, leaders, copied = (-(figure or 0) for figure in figures)
    return not row.is_known, racks, leaders, copied, row.group_id


def _waves(groups: Sequence[ConsumerImpactRow]) -> Iterator[WaveReaders]:
    """The waves that a group notices."""
    by_wave: dict[int, list[tuple[ConsumerImpactRow, Mapping[str, int | None]]]] = {}
    for row in groups:
        for wave in row.waves:
            by_wave.setdefault(wave["wave"], []).append((row, wave))
    for number, of_wave in sorted(by_wave.items(), key=lambda pair: pair[0]):
        rebalancing = [row for row, wave in of_wave if wave["rack_set_changes"] and not row.keeps_partitions]
        new_leaders = [row for row, wave in of_wave if wave["leader_changes"]]
        copied = [row for row, wave in of_wave if wave["copied"]]
        names = sorted({row.group_id for row in (*rebalancing, *new_leaders, *copied)})
        if names:
            yield WaveReaders(number, len(names), first_of(names, _NAMES), len(rebalancing), len(new_leaders))


def _uneven(groups: Sequence[ConsumerImpactRow]) -> list[ConsumerImpactRow]:
    """The groups that could share better, the most uneven first."""
    gains = [(_gain(row), row) for row in groups]
    worth = sorted(((gain, row) for gain, row in gains if gain > _WORTH), key=lambda pair: (-pair[0], pair[1].group_id))
    return [row for _, row in worth[:_SENTENCES]]


def _gain(row: ConsumerImpactRow) -> float:
    return (row.busiest_over_mean or 0.0) - (row.possible_over_mean or 0.0)


def _uneven_in_words(row: ConsumerImpactRow) -> str:
    busiest, possible = row.busiest_over_mean or 0.0, row.possible_over_mean or 0.0
    proven = " (no assignment gives less)" if possible - (row.least_over_mean or 0.0) <= _PROVEN else ""
    others = {"Range": row.range_over_mean, "RoundRobin": row.round_robin_over_mean}
    used = None if row.keeps_partitions else _ASSIGNORS.get((row.assignor or "").lower())
    would = [f"{name} would give {value:.2f}" for name, value in others.items() if value and name != used]
    times = f"the busiest member reads {busiest:.2f} times the mean"
    return f"{_named(row)}: {times}; {possible:.2f} is possible{proven}; {listed(would)}."


def _named(row: ConsumerImpactRow) -> str:
    return f"{row.group_id} ({row.assignor})" if row.assignor else row.group_id


def _leaving(groups: Sequence[ConsumerImpactRow]) -> Iterator[str]:
    """What moves if one member leaves, the groups of which most moves first."""
    known = [(row.moved_if_busiest_leaves, row) for row in groups if row.moved_if_busiest_leaves is not None]
    for moved, row in sorted(known, key=lambda pair: (-pair[0], pair[1].group_id)):
        yield f"{_named(row)}: if one member leaves: {moved_in_words(moved, row.partitions or 0, row.assignor or '')}."


def _idle(groups: Sequence[ConsumerImpactRow], members: Sequence[ConsumerLoadRow]) -> Iterator[str]:
    """Groups with members that have no partition, unless they are rebalancing."""
    idle = Counter(member.group_id for member in members if not member.partitions)
    for row in groups:
        if idle[row.group_id] and row.partitions and row.state in (None, "Stable"):
            count = row.members or idle[row.group_id]
            yield f"{row.group_id}: {idle_in_words(idle[row.group_id], count, row.partitions)}."
