"""How many brokers are needed, and which are cheapest to empty: small clusters, against every choice."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from asking.answer import Answer, answer
from asking.cli import main
from asking.how_many import how_many
from asking.options import variant_parser
from asking.question import Question
from asking.retire import retire
from asking.run_facts import RunFacts
from asking.sections import Grid
from optimizer.errors import ConfigError
from optimizer.planning.in_memory import records
from tests.asking.small_run import CLUSTER, GB, RUN, broker, make_facts, partition, write_run

RACKS = "aabbcc"


def cluster(disk_gb: int = 1000, **policy: object) -> RunFacts:
    """Six brokers in three racks, with sizes that no two brokers hold alike."""
    brokers = [broker(n + 1, RACKS[n], disk_capacity_bytes=disk_gb * GB) for n in range(6)]
    lists = [[1, 3, 5], [2, 4, 6], [1, 4, 5], [2, 3, 6], [1, 3, 6], [2, 4, 5], [1, 4, 6], [2, 3, 5]]
    partitions = [partition("t", n, ids, size_bytes=(20 + 3 * n) * GB) for n, ids in enumerate(lists)]
    return make_facts(brokers, partitions, policy=policy)


def fullest_after(facts: RunFacts, racks: Sequence[str], lost: str = "") -> float:
    """The fullest disk in percent, if brokers like the first stand in these racks and one rack is lost."""
    left = [(100 + n, rack) for n, rack in enumerate(racks) if rack != lost]
    question = Question(
        new_brokers=tuple(b for b, _ in left),
        racks=tuple(rack for _, rack in left),
        like=1 if left else None,
        lost_racks=(lost,) if lost else (),
    )
    return answer(facts, question, anyway=True).figures["fullest_disk_percent"][1] or 0.0


@pytest.mark.parametrize("limit", [0.14, 0.12, 0.1])
def test_the_number_of_brokers_is_the_least_that_is_enough(limit: float) -> None:
    """So many, in the racks with the least capacity, keep every disk below the limit, and one less does not."""
    facts = cluster()
    need = how_many(facts, Question(), like=1, limit=limit, survive_rack=False)
    assert fullest_after(facts, ("abc" * need.count)[: need.count]) < 100 * limit
    if need.count:
        assert fullest_after(facts, ("abc" * need.count)[: need.count - 1]) >= 100 * limit


@pytest.mark.parametrize("limit", [0.16, pytest.param(0.12, marks=pytest.mark.all_only)])
def test_new_brokers_in_a_lost_rack_are_lost_too(limit: float) -> None:
    """Their racks are chosen before the loss. The limit holds after the loss of each rack; with one less it fails."""
    facts = cluster()
    need = how_many(facts, Question(), like=1, limit=limit, survive_rack=True)
    racks = ("abc" * need.count)[: need.count]
    worst = max(fullest_after(facts, racks, lost) for lost in "abc")
    assert need.count
    assert worst < 100 * limit
    assert max(fullest_after(facts, racks[:-1], lost) for lost in "abc") >= 100 * limit
    assert {item.question.lost_racks for item in need.answers} == {(), ("a",), ("b",), ("c",)}


def test_brokers_that_do_not_help_are_not_counted_for_ever() -> None:
    """If replicas may not move, more brokers leave the fullest disk as it is, and the error says so."""
    with pytest.raises(ConfigError, match=r"leave the fullest disk at 13 %, no less than .* --add-broker IDS --like 1"):
        how_many(cluster(only="leaders"), Question(), like=1, limit=0.1, survive_rack=False)


def test_a_broker_that_helps_only_with_one_in_each_rack_is_counted() -> None:
    """New brokers are put into the racks one after the other: ten and eleven are no better than nine, twelve are."""
    facts = cluster()
    assert how_many(facts, Question(), like=1, limit=0.06, survive_rack=False).count == 12
    assert [round(fullest_after(facts, "abc" * 3 + more), 1) for more in ("", "a", "ab", "abc")] == [6.1, 6.1, 6.1, 5.2]


def test_brokers_are_counted_past_a_shortage() -> None:
    """With most of each disk reserved the bytes fit only with more brokers, although the limit is met before."""
    facts = cluster(disk_headroom=0.9)
    need = how_many(facts, Question(), like=1, limit=0.5, survive_rack=False)
    assert all(item.plan for item in need.answers)
    assert "inf" not in need.words()
    short = Question(new_brokers=tuple(range(7, 6 + need.count)), like=1)
    assert need.count == 3 and answer(facts, short).shortage


def test_a_cluster_without_bytes_needs_no_broker() -> None:
    """Its fullest disk has 0 %."""
    brokers = [broker(n + 1, RACKS[n]) for n in range(6)]
    facts = make_facts(brokers, [partition("t", 0, [1, 3, 5], size_bytes=0)])
    need = how_many(facts, Question(), like=1, limit=0.1, survive_rack=True)
    assert need.count == 0
    assert need.words().endswith("the fullest has 0 %.")


def test_a_full_disk_of_unknown_capacity_is_refused() -> None:
    """A closed broker keeps its replicas, and nobody knows how full it is."""
    brokers = [broker(n + 1, RACKS[n], disk_capacity_bytes=None if n == 0 else 1000 * GB) for n in range(6)]
    facts = make_facts(brokers, [partition("t", 0, [1, 3, 5])], policy={"exclude_brokers": [1], "only": "racks"})
    with pytest.raises(ConfigError, match="--disk-below needs the disk capacity of every broker"):
        how_many(facts, Question(), like=2, limit=0.1, survive_rack=False)


@pytest.mark.parametrize("base", [Question(lost_racks=("a",)), Question(lost_brokers=(1, 2))])
def test_a_rack_that_is_lost_already_is_not_lost_again(base: Question) -> None:
    """A column for its loss would be the same as without."""
    need = how_many(cluster(), base, like=1, limit=0.6, survive_rack=True)
    assert [item.question.name for item in need.answers] == ["0 more", "0 more, lose rack b", "0 more, lose rack c"]


def test_names_are_checked_before_brokers_are_counted() -> None:
    """An unknown broker is refused although no new broker is needed, and so is the loss of a rack without racks."""
    text = "--how-many-like 9: cluster orders has no such broker; known are [1, 2, 3, 4, 5, 6]"
    with pytest.raises(ConfigError, match=re.escape(text)):
        how_many(cluster(), Question(), like=9, limit=0.9, survive_rack=False)
    facts = make_facts([broker(n + 1, None) for n in range(6)])
    with pytest.raises(ConfigError, match="--survive-rack: cluster orders has no racks; leave it out"):
        how_many(facts, Question(), like=1, limit=0.9, survive_rack=True)


def test_a_long_search_says_each_number_of_brokers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, as soon as it takes long; the estimate comes first if one number alone takes long."""
    how_many(cluster(), Question(), like=1, limit=0.1, survive_rack=False)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("asking.progress._LONG_SECONDS", 0)
    how_many(replace(cluster(), solve_seconds=5.0), Question(), like=1, limit=0.06, survive_rack=False)
    assert capsys.readouterr().err.splitlines() == [
        "each number of brokers, 1 plan: about 14 s of CPU",
        *(f"{count} new brokers, 1 plan" for count in range(9, 13)),
    ]


def with_a_giant() -> RunFacts:
    """A partition is larger than any band. Brokers 4 and 6 have the same flow into bands, but 6 is cheaper to empty."""
    brokers = [broker(n + 1, rack) for n, rack in enumerate("aabccb")]
    lists = [[1, 3, 5], [2, 6, 4], [1, 6, 5], [2, 3, 4], [1, 3, 4], [2, 6, 5], [1, 6, 4], [2, 3, 5]]
    rows = [partition("t", n, ids, size_bytes=(20 + 3 * n) * GB) for n, ids in enumerate(lists)]
    return make_facts(brokers, [*rows, partition("giant", 0, [1, 3, 5], size_bytes=600 * GB)])


def with_state(state: str) -> RunFacts:
    """The cluster with its first broker in another state."""
    facts = cluster()
    rows = [{**row, "state": state if row["broker_id"] == 1 else "alive"} for row in records(facts.brokers)]
    return replace(facts, brokers=pd.DataFrame(rows))


def plans_of(
    facts: RunFacts, base: Question, count: int, candidates: Sequence[int] = range(1, 7)
) -> dict[tuple[int, ...], Answer]:
    """The plan of each subset of the candidates that accept replicas, in addition to those that are drained already."""
    drained = base.added_to.get("drain_brokers", ())
    ids = [b for b in candidates if b not in drained and facts.brokers.set_index("broker_id")["state"][b] == "alive"]
    subsets = combinations(ids, count)
    return {ids: answer(facts, replace(base, added_to={"drain_brokers": (*drained, *ids)})) for ids in subsets}


def rank_of(plan: Answer) -> tuple[float, ...]:
    """What a plan leaves, and what it copies."""
    figures = {name: after or 0.0 for name, (_, after) in plan.figures.items()}
    unmet = figures["replicas_on_leaving_brokers"] + figures["rack_violations"]
    return unmet, figures["brokers_outside_bands"], figures["moved_bytes"]


@pytest.mark.parametrize(
    ("facts", "count", "candidates"),
    [
        pytest.param(cluster, 1, range(1, 7), id="one"),
        pytest.param(cluster, 2, range(1, 7), id="two", marks=pytest.mark.all_only),
        pytest.param(with_a_giant, 1, (4, 6), id="bands out of reach"),
    ],
)
def test_the_cheapest_subset_is_that_of_all(
    monkeypatch: pytest.MonkeyPatch, facts: Callable[[], RunFacts], count: int, candidates: Sequence[int]
) -> None:
    """Solving every subset finds no better one than the order of bounds; what is proven is below each of them."""
    plans = plans_of(facts(), Question(), count, candidates)
    ranks = [rank_of(plan) for plan in plans.values()]
    for most_solved in (60, 1):
        monkeypatch.setattr("asking.retire.MOST_SOLVED", most_solved)
        choice = retire(facts(), Question(), count, candidates)
        chosen = rank_of(choice.answers[0])
        assert choice.is_proven or most_solved == 1
        if choice.is_proven:
            assert chosen[:2] == min(ranks)[:2]
            assert min(ranks)[2] <= chosen[2] <= 1.001 * min(ranks)[2] + 1
        assert all(choice.least_bytes <= moved for unmet, _, moved in ranks if unmet == 0)
        assert choice.subsets == len(plans)


DRAINS = Question(only="drain")


@pytest.mark.parametrize(
    ("facts", "base", "counts"),
    [
        pytest.param(cluster, Question(), (1,), id="balanced"),
        pytest.param(lambda: cluster(exclude_topics=["t"]), DRAINS, (1,), id="excluded topics leave too"),
        pytest.param(
            cluster, Question(only="drain", added_to={"drain_brokers": (6,)}), (2,), id="one is drained already"
        ),
        pytest.param(lambda: with_state("dead"), DRAINS, (1,), id="the first broker is dead"),
        pytest.param(lambda: with_state("fenced"), DRAINS, (1,), id="what a fenced broker holds stays"),
    ],
)
def test_no_subset_is_emptied_for_less_than_its_bound(
    monkeypatch: pytest.MonkeyPatch, facts: Callable[[], RunFacts], base: Question, counts: Sequence[int]
) -> None:
    """Each subset's bound, which decides what is solved and proven, is what its plan copies, and never more."""
    run = facts()
    plans = {ids: plan for count in counts for ids, plan in plans_of(run, base, count).items()}
    monkeypatch.setattr("asking.retire.MOST_SOLVED", 0)
    for ids, plan in plans.items():
        bound = retire(run, base, len(ids), ids).next_bound_bytes
        assert bound == rank_of(plan)[2], ids


def test_a_broker_that_no_plan_empties_is_not_recommended() -> None:
    """With another only the question is refused; with a limit the answer says that replicas stay."""
    with pytest.raises(ConfigError, match="with only racks no broker is emptied"):
        retire(cluster(only="racks"), Question(), 1)
    words = retire(cluster(max_moved_gb=30.0), Question(), 1).words()
    assert words.startswith("Nothing can be emptied as asked: with the best choice, ")
    assert "stay on brokers to empty" in words


def test_with_only_drain_the_choice_copies_least() -> None:
    """Broken racks and bands that the plan is not requested to repair count for nothing."""
    facts = cluster(only="drain", drain_brokers=[6])
    rows = [
        {**row, "replicas": [1, 2, 3], "isr": [1, 2, 3], "size_bytes": 200 * GB} if row["partition"] == 0 else row
        for row in records(facts.partitions)
    ]
    broken = replace(facts, partitions=pd.DataFrame(rows))
    choice = retire(broken, Question(), 1)
    plans = [answer(broken, Question(added_to={"drain_brokers": (broker_id,)})) for broker_id in range(1, 6)]
    assert all(plan.figures["replicas_on_leaving_brokers"][1] == 0 for plan in plans)
    assert {plan.figures["rack_violations"][1] for plan in plans} == {0.0, 1.0}
    least = min(plan.figures["moved_bytes"][1] or 0.0 for plan in plans)
    assert choice.answers[0].figures["moved_bytes"][1] == least == choice.least_bytes


@pytest.mark.parametrize("base", [Question(only="drain"), Question(knobs={"policy": {"only": "drain"}})])
def test_with_only_drain_the_run_needs_no_drain(base: Question) -> None:
    """The brokers that are chosen are those to empty."""
    assert retire(cluster(), base, 1).is_proven


def test_a_choice_is_proven_although_a_partition_breaks_racks_in_any_case() -> None:
    """The best plan reaches as much as the plan that retires nobody, so no more expensive choice is solved."""
    brokers = [broker(n + 1, RACKS[n]) for n in range(6)]
    lists = [[2, 4, 6], [1, 4, 5], [2, 4, 6], [1, 3, 6], [2, 4, 5], [1, 4, 6], [2, 4, 5]]
    rows = [partition("t", n, ids, size_bytes=(20 + 3 * n) * GB) for n, ids in enumerate(lists)]
    facts = make_facts(brokers, [*rows, partition("bad", 0, [1, 2, 3])], policy={"exclude_topics": ["bad"]})
    choice = retire(facts, Question(), 1, [4, 5, 6])
    assert choice.answers[0].figures["rack_violations"][1] == 1
    assert choice.is_proven and len(choice.answers) < 3


def test_a_search_that_stops_is_not_called_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds that prove nothing it ends after the most plans that it solves."""
    monkeypatch.setattr("asking.retire.MOST_SOLVED", 2)
    monkeypatch.setattr("asking.retire._Bound.of_subset", lambda *_: 0)
    choice = retire(cluster(), Question(), 1)
    assert not choice.is_proven
    assert choice.words().endswith("GB copied.")
    assert choice.proof() == (
        "The search stopped after 2 plans, not proven. Any choice copies at least 0 B (6 subsets bounded)."
    )


def test_an_empty_broker_is_not_proposed() -> None:
    """A new broker is there to be filled; all others are ranked. With --of it can be chosen."""
    facts = cluster()
    empty = broker(7, "a", holds=False)
    brokers = pd.concat([facts.brokers, pd.DataFrame([empty])], ignore_index=True)
    more = replace(facts, brokers=brokers)
    choice = retire(more, Question(), 1)
    assert choice.subsets == 6
    grid, *_ = choice.ranking()
    assert isinstance(grid, Grid)
    assert sorted(row[0] for row in grid.rows) == ["1", "2", "3", "4", "5", "6"]
    assert f" {grid.rows[0][0]}, " in choice.words()
    solved = len(choice.answers)
    assert [row[1].startswith("at least ") for row in grid.rows] == [n >= solved for n in range(6)]
    assert retire(more, Question(), 1, [7]).words().startswith("Cheapest to empty: 7, ")


def test_a_kept_broker_is_not_retired() -> None:
    """It would stay, and the answer would be the plan that empties nobody."""
    facts = cluster(drain_brokers=[1])
    choice = retire(facts, Question(keep=(1,)), 1)
    assert all(item.question.added_to["drain_brokers"] != (1,) for item in choice.answers)
    with pytest.raises(ConfigError, match=re.escape("--of 1: brokers that accept replicas and are not kept are [2, ")):
        retire(facts, Question(keep=(1,)), 1, [1])


def test_a_list_that_replaces_the_choice_is_refused() -> None:
    """With it nobody would be retired."""
    with pytest.raises(
        ConfigError, match=r"--retire chooses the brokers to empty, --set policy\.drain_brokers replaces"
    ):
        retire(cluster(), Question(knobs={"policy": {"drain_brokers": [3]}}), 1)


def test_a_long_choice_says_each_subset(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, with the most CPU time that the search can take."""
    monkeypatch.setattr("asking.progress._LONG_SECONDS", 0)
    choice = retire(replace(cluster(), solve_seconds=5.0), Question(), 1, [1, 2])
    estimate, *said = capsys.readouterr().err.splitlines()
    assert estimate == "up to 2 plans: about 27 s of CPU"
    assert sorted(said) == sorted(item.question.name for item in choice.answers)


@pytest.mark.parametrize("text", ["5-1", "1-9999999999", "0-2000000"])
def test_ranges_of_brokers_are_small_and_ascend(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A reversed range would mean all brokers, and a large one would fill the memory."""
    with pytest.raises(SystemExit):
        main(["ask", "--cluster", CLUSTER, "--retire", "1", "--of", text])
    error = capsys.readouterr().err
    assert "is not a range of broker ids" in error or "has more than" in error


def test_an_id_has_32_bits(capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka has no larger ones."""
    with pytest.raises(SystemExit):
        variant_parser().parse_args(["--add-broker", "2147483648", "--like", "1"])
    assert "2147483648 is not a broker id: they end at 2147483647" in capsys.readouterr().err
    assert replace(Question(), new_brokers=(2147483647,)).changes_cluster


def test_the_page_draws_the_disks_of_each_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dot for each broker before and after; the text has no drawing."""
    warehouse = write_run(tmp_path / "warehouse", cluster())
    words = ["ask", "--warehouse", warehouse.path, "--cluster", CLUSTER, "--drain", "1"]
    assert main([*words, "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (page.count('<circle class="from"'), page.count('<circle class="to low"')) == (6, 5)
    assert "Disks" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "reason"), [("none/page.html", "the folder does not exist"), (".", "this is a folder; name a file")]
)
@pytest.mark.parametrize("command", [["ask"], ["judge", "--run-id", RUN, "--plan", "p"], ["compare", RUN, RUN]])
def test_a_page_that_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: Sequence[str], name: str, reason: str
) -> None:
    """Before anything is read or solved, with the name that was given."""
    page = str(tmp_path / name)
    assert main([*command, "--warehouse", str(tmp_path), "--cluster", CLUSTER, "--html", page]) == 2
    assert f"--html {page}: {reason}" in capsys.readouterr().err


def test_new_windows_are_said_to_have_the_rates_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The percentile of the samples in a window is computed by the job alone."""
    warehouse = write_run(tmp_path / "warehouse", cluster())
    words = ["ask", "--warehouse", warehouse.path, "--cluster", CLUSTER]
    window = "schedule.windows=[{days = ['mon'], start = '22:00', end = '06:00', time_zone = 'UTC'}]"
    assert main([*words, "--set", window, "--set", "schedule.first_night='2026-11-02'"]) == 0
    assert "uses the rates of the run; a job measures those in the windows." in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(words) == 0
    assert "the rates of the run" not in capsys.readouterr().out


def test_a_wave_that_does_not_fit_its_window_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A replica of 20 GB or more takes five hours at 1 MB/s, and the window has four; eight hours are enough for it."""
    warehouse = write_run(tmp_path / "warehouse", cluster())
    words = ["ask", "--warehouse", warehouse.path, "--cluster", CLUSTER, "--drain", "1", "--json"]
    words += ["--set", "schedule.first_night='2026-11-02'", "--set", "schedule.throttle_mb_per_s=1"]
    found = {}
    for end in ("02:00", "20:00"):
        window = f"schedule.windows=[{{days = ['mon'], start = '22:00', end = '{end}', time_zone = 'UTC'}}]"
        assert main([*words, "--set", window]) == 0
        *_, line = capsys.readouterr().out.splitlines()
        found[end] = [row["code"] for answer in json.loads(line)["answers"] for row in answer["wave_findings"]]
    assert set(found["02:00"]) == {"wave_too_long"}
    assert found["20:00"] == []
