"""Plans of other tools, measured and compared with Ballast's."""

import json
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from asking.cli import main
from asking.judge.judge import Judgement, document_of, judged
from asking.judge.read_plan import read_plans
from asking.judge.their_plan import Kind, NamedPartition, TheirPlan
from asking.question import Question, settings_for
from asking.run_facts import RunFacts
from optimizer.errors import ConfigError
from optimizer.kafka.reassignment_json import TopicPartition, format_reassignment
from optimizer.planning.in_memory import plan_in_memory
from optimizer.planning.plan_figures import Figures, figures_of
from optimizer.planning.policy.all_rules import instance_of
from stored.verdicts import Refused
from tests.asking.small_run import BROKERS, CLUSTER, GB, RUN, broker, make_facts, partition, write_run

Lists = Mapping[TopicPartition, Sequence[int]]
NO_FIGURES: Figures = {}


def _their_plan(lists: Lists, old: Lists | None = None) -> list[TheirPlan]:
    named = {
        key: NamedPartition(*key, tuple(new), None, tuple(old[key]) if old and key in old else None, f"entry {number}")
        for number, (key, new) in enumerate(lists.items(), start=1)
    }
    return [TheirPlan("plan.json", Kind.REASSIGNMENT, named)]


def _ours(facts: RunFacts) -> tuple[Lists, Figures]:
    """The lists of Ballast's plan, and its figures."""
    settings = settings_for(facts, Question())
    instance, hosts = instance_of(facts.partitions, facts.brokers, settings, facts.cluster_id)
    plan = plan_in_memory(instance, hosts.assign(run_id=RUN), settings, captured_at=facts.captured_at)
    rows = plan.tables["proposal"]
    lists = zip(rows["topic"], rows["partition"], rows["replicas"], strict=True)
    return {(topic, int(n)): [int(b) for b in ids] for topic, n, ids in lists}, figures_of(plan.tables, hosts)


@cache
def _usual() -> tuple[RunFacts, Lists, Figures]:
    facts = make_facts()
    return facts, *_ours(facts)


def test_our_own_plan() -> None:
    """Judged as another tool's plan, the run's plan has the same figures, and the ratio is 1."""
    facts, lists, ours = _usual()
    judgement = judged(facts, _their_plan(lists), ours)
    for name in ("moved_bytes", "replicas_moved", "leader_changes", "fullest_disk_percent", "waves", "most_hours"):
        assert judgement.theirs[name] == ours[name], name
    assert judgement.equal["moved_bytes"] == ours["moved_bytes"]
    assert judgement.verdict() == "Their plan copies 1.00x what Ballast needs for a plan that is as balanced."
    assert (list(judgement.violations), list(judgement.notes)) == ([], [])


def test_a_plan_that_copies_more_than_it_needs() -> None:
    """Two partitions change places: the balance is as before, so Ballast copies nothing."""
    facts, _, ours = _usual()
    judgement = judged(facts, _their_plan({("clicks", 0): [2, 3, 5], ("clicks", 4): [1, 4, 5]}), ours)
    assert judgement.theirs["moved_bytes"] == (None, 80.0 * GB)
    assert judgement.equal["moved_bytes"] == (None, 0.0)
    assert judgement.verdict() == "One of the plans copies nothing, so there is no ratio."


def test_a_plan_without_a_change() -> None:
    """Lists that are the run's lists change nothing."""
    facts, _, ours = _usual()
    judgement = judged(facts, _their_plan({("clicks", 0): [1, 3, 5]}), ours)
    assert (judgement.theirs["moved_bytes"], judgement.theirs["waves"]) == ((None, 0.0), (None, 0.0))
    assert not judgement.violations


BROKEN_ROWS = [*(partition("t", n, [1, 2, 5]) for n in range(3)), partition("t", 3, [2, 4, 6])]
BROKEN = make_facts(BROKERS, BROKEN_ROWS)


def test_broken_racks_have_no_ratio() -> None:
    """A plan that leaves racks broken copies less than one that repairs them: the bytes cannot be compared."""
    judgement = judged(BROKEN, _their_plan({("t", 0): [1, 3, 5]}), NO_FIGURES)
    assert judgement.theirs["rack_violations"] == (3.0, 2.0)
    assert judgement.equal["rack_violations"] == (3.0, 0.0)
    assert judgement.verdict() == (
        "Their plan leaves 2 more partitions on broken racks, so the bytes cannot be compared."
    )


def test_brokers_that_are_not_emptied_have_no_ratio() -> None:
    """A plan that leaves replicas on a broker to empty copies less: the bytes cannot be compared."""
    facts = make_facts(policy={"drain_brokers": [5]})
    judgement = judged(facts, _their_plan({("clicks", 0): [1, 3, 6], ("clicks", 1): [1, 3, 6]}), NO_FIGURES)
    assert judgement.theirs["replicas_on_leaving_brokers"] == (7.0, 5.0)
    assert judgement.verdict() == (
        "Their plan leaves 5 more replicas on brokers to empty, so the bytes cannot be compared."
    )


@pytest.mark.parametrize(
    ("lists", "rule"),
    [
        ({("clicks", 0): [1, 2, 5]}, "rack"),
        ({("clicks", 0): [1, 3, 7]}, "dead"),
    ],
)
def test_violations(lists: Lists, rule: str) -> None:
    """Rules that their plan breaks are named with the partition; what it leaves as it was is no violation."""
    facts = make_facts([*BROKERS, broker(7, "c", state="dead", holds=False)])
    judgement = judged(facts, _their_plan(lists), NO_FIGURES)
    [violation, *_] = judgement.violations
    assert rule in violation.text
    assert violation.subject == "clicks-0"


def _remarks(facts: RunFacts, judgement: Judgement) -> Sequence[Any]:
    """The sentences below the table."""
    [section] = [each for each in document_of(facts, judgement).sections if each.title == "Remarks"]
    return section.parts


# 100 GB with 10 % headroom: brokers 1, 3 and 5 have space for the small partition, and not for two of 40 GB.
TIGHT = make_facts(
    [broker(number, "aabbcc"[number - 1], disk_capacity_bytes=100 * GB) for number in range(1, 7)],
    [
        partition("t", 0, [1, 3, 5], size_bytes=60 * GB),
        *(partition("t", number, [2, 4, 6], size_bytes=40 * GB) for number in (1, 2)),
        partition("t", 3, [2, 4, 6], size_bytes=5 * GB),
    ],
)


def test_what_fits_into_no_wave_is_counted_and_comes_after_the_last_wave() -> None:
    """Bytes copied include it and times do not, so a note names it; a rule that it breaks names no wave."""
    judgement = judged(TIGHT, _their_plan({("t", number): [1, 3, 5] for number in (1, 2, 3)}), NO_FIGURES)
    assert (judgement.theirs["moved_bytes"], judgement.theirs["waves"]) == ((None, 255.0 * GB), (None, 1.0))
    assert _remarks(TIGHT, judgement) == [
        "2 partitions, 240 GB, fit into no wave, because disks would be over their limit: waves and times are "
        "without them.",
        "Their plan has 3 violations of 1 rule:",
        *(
            f"Broker {b} would hold 145 GB with the partitions that fit into no wave; at most 90.0 GB are allowed."
            for b in (1, 3, 5)
        ),
    ]


def test_a_plan_that_fits_into_no_wave_has_no_times() -> None:
    """Without any wave the note still says why."""
    judgement = judged(TIGHT, _their_plan({("t", number): [1, 3, 5] for number in (1, 2)}), NO_FIGURES)
    assert (judgement.theirs["waves"], judgement.theirs["most_hours"]) == ((None, 0.0), (None, 0.0))
    [note, *_] = judgement.notes
    assert note.startswith("2 partitions, 240 GB, fit into no wave")


def test_violations_are_sentences_with_their_reasons() -> None:
    """A partition that must not move has the reason, limits are in large units, and each broker is named once."""
    rows = [
        partition("t", 0, [1, 3, 5], controller_replicas=[1, 3, 6], adding_replicas=[5]),
        partition("t", 1, [1, 3, 5]),
    ]
    facts = make_facts(BROKERS, rows, policy={"max_moved_gb": 50.0, "max_moves": 2})
    judgement = judged(facts, _their_plan({("t", 0): [2, 4, 5], ("t", 1): [2, 3, 5]}), NO_FIGURES)
    assert _remarks(facts, judgement) == [
        "Their plan has 3 violations of 2 rules:",
        "t-0 must not move: its reassignment is still running.",
        "Their plan copies 120 GB; the policy allows 50.0 GB.",
        "Their plan copies 3 replicas; the policy allows 2.",
    ]


def test_more_violations_than_are_shown() -> None:
    """The text has the first ones and says where all are."""
    lists = {("clicks", number): [1, 2, 5] for number in range(7)}
    remarks = _remarks(make_facts(), judged(make_facts(), _their_plan(lists), NO_FIGURES))
    assert remarks[0] == "Their plan has 7 violations of 1 rule:"
    assert remarks[1] == "clicks-0: [1, 2, 5]: 1 replica against the rack rule, 0 before."
    assert (len(remarks), remarks[-1]) == (7, "And 2 more: --json lists all.")


def test_old_lists_on_a_dead_broker_break_no_rule() -> None:
    """Kafka refuses to restore them; that is no fault of a plan that leaves the broker."""
    brokers = [*BROKERS[:-1], broker(6, "c", state="dead")]
    judgement = judged(make_facts(brokers), _their_plan({("audit", 0): [3, 1, 5]}), NO_FIGURES)
    assert not judgement.violations


def test_factors() -> None:
    """Their replication factors count for Ballast's plan at their balance too."""
    facts, _, ours = _usual()
    more, fewer = ({("audit", 0): [3, 1, 6, 2]}, {("audit", 0): [3, 1]})
    for lists, moved in ((more, 20.0 * GB), (fewer, 0.0)):
        judgement = judged(facts, _their_plan(lists), ours)
        assert judgement.theirs["factor_changes"] == judgement.equal["factor_changes"] == (None, 1.0)
        assert judgement.theirs["moved_bytes"] == (None, moved)
        assert judgement.equal["moved_bytes"] == (None, moved)


@pytest.mark.parametrize(
    ("policy", "lifted"),
    [
        ({"only": "racks"}, "only"),
        ({"only": "leaders"}, "only"),
        ({"only": "dirs"}, "only"),
        ({"exclude_topics": ["clicks"]}, "only, topics and exclude_topics"),
        ({"topics": ["audit"]}, "only, topics and exclude_topics"),
        ({"topics": ["audit"], "only": "racks"}, "only, topics and exclude_topics"),
    ],
)
def test_what_the_run_leaves_out_counts_if_their_plan_changes_it(policy: Mapping[str, Any], lifted: str) -> None:
    """Ballast at their balance may change the same: the ratio is that of a run that leaves nothing out."""
    _, lists, ours = _usual()
    judgement = judged(make_facts(policy=policy), _their_plan(lists), ours)
    assert judgement.equal["moved_bytes"] == ours["moved_bytes"]
    assert judgement.times_least == 1
    assert judgement.notes == (
        "Their plan changes what the run leaves out, so Ballast at their balance is planned without the run's "
        f"{lifted}.",
    )


def test_what_their_plan_leaves_out_as_the_run_does_stays_out() -> None:
    """A plan that repairs racks alone, as the run requests, is compared with such a plan: the drain does not count."""
    facts = make_facts(BROKERS, BROKEN_ROWS, policy={"only": "racks", "drain_brokers": [6]})
    lists, ours = _ours(facts)
    judgement = judged(facts, _their_plan(lists), ours)
    assert (judgement.notes, judgement.times_least) == ((), 1.0)


def test_a_plan_at_their_balance_that_does_not_reach_it_has_no_ratio() -> None:
    """Their plan moves a large partition that must not move, so Ballast's loads are outside bands with theirs."""
    rows = [
        partition("t", 0, [1, 3, 5], size_bytes=300 * GB, controller_replicas=[1, 3, 6], adding_replicas=[5]),
        *(partition("t", number, [2, 4, 6], size_bytes=100 * GB) for number in (1, 2)),
    ]
    swapped = {("t", 0): [2, 4, 6], ("t", 1): [1, 3, 5], ("t", 2): [1, 3, 5]}
    judgement = judged(make_facts(BROKERS, rows), _their_plan(swapped), NO_FIGURES)
    assert judgement.times_least is None
    assert judgement.verdict() == (
        "Ballast at their balance is less balanced than their plan, so the bytes cannot be compared."
    )


def test_stale_lists() -> None:
    """Old lists that are not the run's are refused above 1 %, and else noted."""
    facts, lists, ours = _usual()
    old = dict.fromkeys(lists, (1, 2, 3))
    with pytest.raises(Refused) as error:
        judged(facts, _their_plan(lists, old), ours)
    text = f"{len(lists)} of {len(lists)} old replica lists in the plan (100 %) are not those of the run: "
    assert str(error.value).startswith(text)
    assert str(error.value).endswith("; make their plan and the run from the same state, or add --stale-ok to judge it")
    [note] = judged(facts, _their_plan(lists, old), ours, stale_ok=True).notes
    assert note.startswith(text)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({("clicks", 99): [1, 3, 5]}, "the plan names 1 partition that the run does not have: clicks-99"),
        ({("clicks", 0): [1, 3, 9]}, "the plan names 1 broker that the run does not have: 9"),
    ],
)
def test_another_cluster(lists: Lists, message: str) -> None:
    """A plan with unknown names is refused."""
    with pytest.raises(ConfigError, match=message):
        judged(make_facts(), _their_plan(lists), NO_FIGURES)


@pytest.mark.parametrize("seed", range(30))
def test_at_their_balance_ballast_copies_no_more(seed: int) -> None:
    """Their plan is one of those that are as balanced; so the least of these copies no more, if it breaks no rule."""
    draw = random.Random(seed)
    rows = [
        partition(
            f"t{draw.randint(0, 2)}", n, _legal(draw), size_bytes=draw.randint(1, 60) * GB,
        )
        for n in range(draw.randint(3, 12))
    ]  # fmt: skip
    facts = make_facts(BROKERS, rows)
    lists = {(row["topic"], row["partition"]): _legal(draw) for row in rows if draw.random() < 0.6}
    judgement = judged(facts, _their_plan(lists or {(rows[0]["topic"], 0): _legal(draw)}), NO_FIGURES)
    assert not judgement.violations
    theirs, equal = (figures["moved_bytes"][1] for figures in (judgement.theirs, judgement.equal))
    assert theirs is not None and equal is not None
    assert equal <= theirs


def _legal(draw: random.Random) -> list[int]:
    """A list with one broker of each rack."""
    listed = [draw.choice((1, 2)), draw.choice((3, 4)), draw.choice((5, 6))]
    draw.shuffle(listed)
    return listed


@pytest.mark.parametrize(
    ("theirs", "equal", "verdict"),
    [
        # bytes, broken racks
        ((150, 0), (100, 0), "Their plan copies 1.50x what Ballast needs for a plan that is as balanced."),
        ((150, 2), (100, 2), "Their plan copies 1.50x what Ballast needs for a plan that is as balanced."),
        ((150, 1), (100, 2), "Their plan leaves less undone than Ballast at their balance, so the bytes cannot"),
        ((90, 3), (100, 2), "Their plan leaves 1 more partition on broken racks, so the bytes cannot"),
        ((0, 0), (100, 0), "One of the plans copies nothing, so there is no ratio."),
        ((100, 0), (0, 0), "One of the plans copies nothing, so there is no ratio."),
    ],
)
def test_verdicts(theirs: tuple[float, float], equal: tuple[float, float], verdict: str) -> None:
    """A ratio of bytes, unless they are not comparable."""
    sides = [{"moved_bytes": (None, moved), "rack_violations": (5.0, broken)} for moved, broken in (theirs, equal)]
    judgement = Judgement(sides[0], NO_FIGURES, sides[1], (), ())
    assert judgement.verdict().startswith(verdict)
    assert judgement.times_least == (1.5 if "1.50x" in verdict else None)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer has four columns and the verdict; as JSON it has all figures; errors have their exit codes."""
    facts, lists, _ = _usual()
    warehouse = write_run(tmp_path / "warehouse", facts)
    plan, words = tmp_path / "plan.json", ["--warehouse", warehouse.path, "--cluster", CLUSTER, "--run-id", RUN]
    plan.write_text(format_reassignment((*key, ids, None) for key, ids in lists.items()))
    assert [len(phase.partitions) for phase in read_plans([plan])] == [len(lists)]
    assert main(["judge", *words, "--plan", str(plan)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "Their plan copies 1.00x what Ballast needs for a plan that is as balanced."
    assert out[out.index("Other figures") + 1].split() == [
        "now",
        "theirs",
        "Ballast's",
        "Ballast",
        "at",
        "their",
        "balance",
    ]
    assert main(["judge", *words[:4], "--plan", str(plan)]) == 0  # the last run
    assert capsys.readouterr().out.splitlines() == out
    assert main(["judge", *words, "--plan", str(plan), "--json"]) == 0
    content: Any = json.loads(capsys.readouterr().out)
    assert content["theirs"]["moved_bytes"] == content["ours"]["moved_bytes"]
    assert (content["notes"], content["violations"], content["times_least"]) == ([], [], 1.0)
    assert main(["judge", *words, "--plan", str(tmp_path / "none")]) == 2
    plan.write_text(format_reassignment([("other", 0, [1, 3, 5], None)]))
    assert main(["judge", *words, "--plan", str(plan)]) == 2
    assert "the plan names 1 partition that the run does not have: other-0" in capsys.readouterr().err
