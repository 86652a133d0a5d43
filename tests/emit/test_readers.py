"""Consumer groups on the pages: which notice the plan, how evenly they read, and what nobody knows."""

import json
from dataclasses import replace
from typing import Any

import pytest

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.consumer_counts import ConsumerCounts, consumer_counts
from optimizer.emit.decision import decision_of
from optimizer.emit.decision_text import decision_json
from optimizer.emit.manifest import manifest
from optimizer.emit.report.readers import noticed_in_words, readers
from optimizer.emit.rows import ConsumerImpactRow, ConsumerLoadRow
from tests.emit.rows import rows_of
from tests.emit.test_pages import synthetic
from tests.emit.texts import report_of

QUIET = {"rack_set_changes": 0, "rack_list_changes": 0, "leader_changes": 0, "copied": 0}
NOBODY_KNOWS = dict.fromkeys(QUIET)


def group(name: str, *waves: dict[str, int], **more: Any) -> dict[str, Any]:
    """A stable group of two members that notices these waves."""
    sums = {figure: sum(wave.get(figure, 0) for wave in waves) for figure in QUIET}
    of_waves = [{"wave": number, **QUIET, **wave} for number, wave in enumerate(waves, start=1)]
    known = {"group_id": name, "protocol": "classic", "state": "Stable", "assignor": "range", "members": 2}
    return {**known, "is_known": True, "partitions": 4, **sums, "changed_topics": [], "waves": of_waves, **more}


RACKS = {"rack_set_changes": 2, "rack_list_changes": 2, "copied": 2}
GROUPS = (
    group("orders-app", RACKS, {"leader_changes": 3}),
    group("modern", RACKS, protocol="consumer", assignor="uniform"),
    group("quiet"),
    group("moved-inside", {"rack_list_changes": 1}, protocol="consumer"),
    group("empty", members=0, state="Empty"),
    group("unread", is_known=False, members=None, partitions=None, **NOBODY_KNOWS),
)


def plan_with(*groups: dict[str, Any], **more: Any) -> ClusterPlan:
    """A plan whose cluster has these groups."""
    return replace(synthetic(12), consumer_groups=rows_of(ConsumerImpactRow, *groups), **more)


def counted(*groups: dict[str, Any]) -> ConsumerCounts:
    """The counts of some groups."""
    counts = consumer_counts(rows_of(ConsumerImpactRow, *groups))
    assert counts is not None
    return counts


def test_counts_of_groups() -> None:
    """Groups of the consumer protocol keep their partitions, so racks alone are not noticed; copies are."""
    assert vars(counted(*GROUPS)) == {
        "reading": 4, "noticing": 2, "unaffected": 2, "may_rebalance": 1, "with_new_leaders": 1,
        "read_while_copied": 2, "without_members": 1, "unknown": 1,
    }  # fmt: skip
    assert consumer_counts([]) is None


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (
            GROUPS,
            "2 of 4 consumer groups notice the plan: 1 may rebalance, 1 gets new leaders and 2 read while copies run; "
            "2 notice nothing; 1 group has no members; what the members of 1 group hold is not known "
            "(kafka-consumer-groups.sh --describe --members --verbose prints it).",
        ),
        ([group("a"), group("b")], "2 consumer groups do not notice the plan."),
        ([group("a", {"leader_changes": 1})], "1 of 1 consumer group notices the plan: 1 gets new leaders."),
        ([group("a", members=0)], "1 group has no members."),
    ],
)
def test_who_notices_in_words(groups: list[dict[str, Any]], words: str) -> None:
    """One sentence names what happens, and of which groups nobody knows."""
    assert noticed_in_words(counted(*groups)) == words


def test_waves_name_the_groups_that_notice_them() -> None:
    """A wave that changes only the list of racks is noticed by nobody; long lists are cut."""
    shown = readers(plan_with(*GROUPS, *(group(f"more-{number}", RACKS) for number in range(6))))
    assert shown is not None
    assert [(line.wave, line.groups, line.may_rebalance, line.with_new_leaders) for line in shown.waves] == [
        (1, 8, 7, 0),
        (2, 1, 0, 1),
    ]
    assert shown.waves[0].names == "modern, more-0, more-1, more-2, more-3 and 3 more"
    assert shown.waves[1].names == "orders-app"


RATIOS = {"busiest_over_mean": 2.1, "possible_over_mean": 1.05, "least_over_mean": 1.0}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"range_over_mean": 2.1, "round_robin_over_mean": 1.2},
            "orders-app (range): the busiest member reads 2.10 times the mean; 1.05 is possible; "
            "RoundRobin would give 1.20.",
        ),
        (
            {"assignor": None, "range_over_mean": 1.5, "round_robin_over_mean": 1.2, "least_over_mean": 1.05},
            "orders-app: the busiest member reads 2.10 times the mean; 1.05 is possible (no assignment gives less); "
            "Range would give 1.50 and RoundRobin would give 1.20.",
        ),
        ({"possible_over_mean": 2.05}, None),
        ({"busiest_over_mean": None, "possible_over_mean": None}, None),
    ],
)
def test_a_group_that_could_read_more_evenly(more: dict[str, Any], sentence: str | None) -> None:
    """Only a gain of a tenth of the mean is worth a sentence."""
    shown = readers(plan_with(group("orders-app", **RATIOS | more)))
    assert shown is not None
    assert list(shown.uneven) == ([sentence] if sentence else [])


def test_what_moves_if_one_member_leaves() -> None:
    """Most first; eager assignors stop all partitions. Groups of which nothing is claimed have no sentence."""
    shown = readers(
        plan_with(
            group("few", assignor="cooperative-sticky", moved_if_busiest_leaves=1, partitions=8),
            group("most", moved_if_busiest_leaves=2, partitions=8),
            group("modern", assignor="uniform"),
        )
    )
    assert shown is not None
    assert shown.leaving == [
        "most (range): if one member leaves: 2 of 8 partitions move, all stop meanwhile.",
        "few (cooperative-sticky): if one member leaves: 1 of 8 partitions moves, only these stop meanwhile.",
    ]


@pytest.mark.parametrize(
    ("holds", "more", "sentences"),
    [
        ([5, 3, 0, 0], {"members": 4}, ["g: 2 of 4 members have nothing to read; the group has 8 partitions."]),
        ([8, 0], {"state": None}, ["g: 1 of 2 members has nothing to read; the group has 8 partitions."]),
        ([5, 3], {}, []),
        ([5, 0], {"state": "PreparingRebalance"}, []),
        ([0, 0], {"partitions": 0}, []),
    ],
)
def test_members_with_nothing_to_read(holds: list[int], more: dict[str, Any], sentences: list[str]) -> None:
    """The waste is named with its number, unless the group is rebalancing."""
    about = {"group_id": "g", "in_bytes_per_s": 1, "brokers": [], "brokers_after": []}
    loads = rows_of(
        ConsumerLoadRow, *({**about, "member_id": f"m{at}", "partitions": count} for at, count in enumerate(holds))
    )
    plan = plan_with(group("g", **{"partitions": 8, **more}), consumer_members=loads)
    shown = readers(plan)
    assert shown is not None
    assert list(shown.idle) == sentences
    section = report_of(plan).partition('<section id="consumers">')[2]
    assert ("Members with nothing to read" in section) == bool(sentences)


def test_the_section_of_the_report() -> None:
    """Groups that notice most come first, unknown figures are dashes, and members name their brokers."""
    about = {"group_id": "orders-app", "client_id": "a <b>", "host": "/h", "partitions": 2, "in_bytes_per_s": 2_000_000}
    loads = rows_of(
        ConsumerLoadRow, {**about, "member_id": "m", "brokers": [1, 2], "brokers_after": [3]},
    )  # fmt: skip
    text = report_of(plan_with(*GROUPS, consumer_members=loads))
    section = text.partition('<section id="consumers">')[2].partition("</section>")[0]
    assert '<a href="#consumers">' in text
    names = [name for name in ("orders-app", "modern", "empty", "quiet", "unread")]
    places = [section.index(f'class="name">{name}</th>') for name in names]
    assert places == sorted(places)
    assert section.count('<td class="num">-</td>') >= 6
    assert 'a &lt;b&gt;</td><td class="name">/h</td><td class="num">2</td><td class="num">2.0</td>' in section
    assert '<td class="name">1, 2</td><td class="name">3</td>' in section
    assert "consumers" not in report_of(synthetic(12)).partition("<nav")[2].partition("</nav>")[0]


def test_many_groups_and_members_are_cut() -> None:
    """A page shows some rows and names the table that has all."""
    loads = rows_of(
        ConsumerLoadRow,
        *({"group_id": "g", "member_id": f"m{n}", "partitions": n, "in_bytes_per_s": n, "brokers": [],
           "brokers_after": []} for n in range(130)),
    )  # fmt: skip
    shown = readers(plan_with(*(group(f"g{n:03d}") for n in range(60)), consumer_members=loads))
    assert shown is not None
    assert (len(shown.groups), shown.hidden, len(shown.members), shown.members_hidden) == (50, 10, 100, 30)
    assert shown.members[0].in_bytes_per_s == 129


def test_programs_read_the_counts() -> None:
    """Manifest and decision have the counts if there are groups, and nothing about consumers otherwise."""
    plan = plan_with(*GROUPS)
    counts = vars(counted(*GROUPS))
    assert json.loads(manifest(plan, []).content)["consumer_groups"] == counts
    assert json.loads(decision_json(plan, decision_of(plan)))["consumer_groups"] == counts
    without = synthetic(12)
    assert "consumer" not in manifest(without, []).content
    assert "consumer_groups" not in json.loads(decision_json(without, decision_of(without)))


def test_the_card_about_leaders() -> None:
    """It says how many groups notice the plan, if a source has groups."""
    remarks = [card.remark for card in decision_of(plan_with(*GROUPS)).cards]
    assert any(remark.endswith("; 2 of 4 consumer groups notice the plan") for remark in remarks)
    assert not any("consumer" in card.remark for card in decision_of(synthetic(12)).cards)
    nobody = plan_with(group("empty", members=0))
    assert not any("consumer" in card.remark for card in decision_of(nobody).cards)


def test_the_card_of_a_plan_that_only_copies() -> None:
    """Without new leaders and other racks a group still notices copies; without groups nothing is noticed."""
    plan = replace(plan_with(group("app", {"copied": 1})), changed=[])
    remarks = [card.remark for card in decision_of(plan).cards]
    assert "clients look nothing up; 1 of 1 consumer group notices the plan" in remarks
    quiet = [card.remark for card in decision_of(replace(plan, consumer_groups=())).cards]
    assert "clients notice nothing" in quiet


def test_holders_without_a_number_of_members_read() -> None:
    """Offsets alone name who holds what, but not how many members there are."""
    assert counted(group("app", RACKS, members=None)).reading == 1
