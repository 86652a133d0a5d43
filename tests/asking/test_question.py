"""Questions: what the options mean, which settings they give, and which cluster they describe."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from asking.question import Question, facts_for, settings_for, with_racks
from asking.run_facts import RunFacts
from optimizer.errors import ConfigError
from optimizer.planning.in_memory import records
from tests.asking.small_run import BROKERS, GB, PARTITIONS, asked, broker, make_facts, partition

NONE: dict[str, tuple[int, ...]] = {"drain_brokers": (), "exclude_brokers": (), "demote_brokers": ()}


@pytest.mark.parametrize(
    ("words", "expected", "in_words"),
    [
        ("", {}, "no change"),
        ("--drain 17,18 --drain 3", {"added_to": {**NONE, "drain_brokers": (17, 18, 3)}}, "drain 17, 18, 3"),
        ("--exclude-brokers 4", {"added_to": {**NONE, "exclude_brokers": (4,)}}, "exclude 4"),
        ("--demote 4", {"added_to": {**NONE, "demote_brokers": (4,)}}, "demote 4"),
        ("--keep 105,6", {"keep": (105, 6)}, "keep 105, 6"),
        ("--only racks", {"only": "racks"}, "only racks"),
        ("--only none", {"only": ""}, "only none"),
        (
            "--set policy.disk_band=0.1 --set policy.max_moves=5 --set solver.rounds=2",
            {"knobs": {"policy": {"disk_band": 0.1, "max_moves": 5}, "solver": {"rounds": 2}}},
            "policy.disk_band = 0.1, policy.max_moves = 5, solver.rounds = 2",
        ),
        (
            "--add-broker 7,8 --like 6 --rack a",
            {"new_brokers": (7, 8), "like": 6, "racks": ("a",)},
            "add brokers 7 (a), 8 (a) like 6",
        ),
        (
            "--add-broker 7 --add-broker 8 --like 6 --rack a,b",
            {"new_brokers": (7, 8), "like": 6, "racks": ("a", "b")},
            "add brokers 7 (a), 8 (b) like 6",
        ),
        ("--add-broker 7 --like 6", {"new_brokers": (7,), "like": 6}, "add broker 7 like 6"),
        (
            "--disk 6=8TB --disk 5=2.5GB --rack-of 4=c",
            {"disks": {6: 8 * 10**12, 5: 25 * 10**8}, "racks_of": {4: "c"}},
            "broker 6 has 8.00 TB of disk, broker 5 has 2.50 GB of disk, broker 4 is in rack c",
        ),
        ("--lose-broker 4,5", {"lost_brokers": (4, 5)}, "lose broker 4, 5"),
        ("--lose-rack a,b", {"lost_racks": ("a", "b")}, "lose rack a, b"),
        ("--load 1.5", {"size_factor": 1.5, "rate_factor": 1.5}, "load x 1.5"),
        (
            "--load 1.5 --topics clicks[.].*",
            {"size_factor": 1.5, "rate_factor": 1.5, "topics": "clicks[.].*"},
            "load of clicks[.].* x 1.5",
        ),
        ("--sizes 0.5", {"size_factor": 0.5}, "sizes x 0.5"),
        ("--rates 2", {"rate_factor": 2.0}, "rates x 2"),
        ("--sizes 0.5 --rates 2", {"size_factor": 0.5, "rate_factor": 2.0}, "sizes x 0.5, rates x 2"),
        (
            "--drain 1 --only drain --lose-rack b --load 2",
            {
                **{"added_to": {**NONE, "drain_brokers": (1,)}, "only": "drain", "lost_racks": ("b",)},
                **{"size_factor": 2.0, "rate_factor": 2.0},
            },
            "drain 1, only drain, lose rack b, load x 2",
        ),
    ],
)
def test_options(words: str, expected: dict[str, Any], in_words: str) -> None:
    """Each option is one part of the question, and the question has words for it; they are its name."""
    question = asked(*words.split())
    assert question == Question(name=in_words, **{"added_to": NONE, **expected})
    assert question.words() == in_words
    assert asked(*words.split(), name="mine") == Question(name="mine", **{"added_to": NONE, **expected})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--set storage.output=x", "--set storage.output=x: an answer does not depend on it; use policy, solver, "),
        ("--set disk_band=1", "--set disk_band=1: write SECTION.KEY=VALUE, e.g. policy.disk_band=1"),
        ("--set clusters.id=1", "--set clusters.id=1: describe a cluster by --cluster ID"),
        (
            "--set policy.disk_band=1 --set policy.disk_band=2",
            "--set policy.disk_band=1 and --set policy.disk_band=2 set the same knob: give one of them",
        ),
        (
            "--drain 1 --set policy.drain_brokers=[2]",
            "--drain and --set policy.drain_brokers=[2] set the same knob: give one of them",
        ),
        (
            "--keep 105 --set policy.drain_brokers=[107]",
            "--keep and --set policy.drain_brokers=[107] set the same knob: give one of them",
        ),
        ("--only none --set policy.only=drain", "--only and --set policy.only=drain set the same knob"),
        ("--add-broker 7", "--add-broker IDS and --like ID belong together: new brokers get the capacities of --like"),
        ("--like 7", "--add-broker IDS and --like ID belong together: new brokers get the capacities of --like"),
        ("--rack a", "--rack is the rack of new brokers: also give --add-broker IDS"),
        ("--load 2 --sizes 1", "--load scales sizes and rates: give --load, or --sizes and --rates"),
        ("--load 2 --rates 1", "--load scales sizes and rates: give --load, or --sizes and --rates"),
        ("--topics a.*", "--topics chooses the topics of --load, --sizes or --rates: also give one of them"),
        ("--load 2 --topics a(", "--topics: 'a(' is not a regular expression: "),
    ],
)
def test_refused_options(words: str, message: str) -> None:
    """Options that do not belong together are refused, with the remedy."""
    with pytest.raises(ConfigError) as error:
        asked(*words.split())
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--drain x", "'x' is not a list of broker ids: write 3 or 3,7,12"),
        ("--lose-broker 1,", "'1,' is not a list of broker ids"),
        ("--load 0", "'0' is not a factor: write a number up to 1000, such as 1.5"),
        ("--rates nan", "'nan' is not a factor"),
        ("--sizes 1001", "'1001' is not a factor"),
        ("--disk 6", "'6' is not a broker and the size of its disk: write 17=8TB"),
        ("--disk 6=0", "'6=0' is not a broker and the size of its disk"),
        ("--disk 6=8TiB", "'6=8TiB' is not a broker and the size of its disk"),
        ("--rack-of 6=", "'6=' is not a broker and its rack: write 17=eu-west-1c"),
        ("--only sizes", "unknown 'sizes'; choose from racks, drain, leaders, demote, dirs, none"),
    ],
)
def test_values_that_are_none(capsys: pytest.CaptureFixture[str], words: str, message: str) -> None:
    """A value that cannot be read ends with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        asked(*words.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("", False),
        ("--drain 1 --keep 2 --only none --set policy.disk_band=1", False),
        ("--load 1", False),
        ("--add-broker 7 --like 1", True),
        ("--lose-broker 1", True),
        ("--lose-rack a", True),
        ("--disk 1=1TB", True),
        ("--rack-of 1=c", True),
        ("--sizes 2", True),
        ("--rates 0.5", True),
    ],
)
def test_what_changes_the_cluster(words: str, changes: bool) -> None:
    """Requests and settings leave the cluster as it is; brokers, losses and loads change it."""
    assert asked(*words.split()).changes_cluster is changes


RUN = make_facts(
    policy={"drain_brokers": [1], "demote_brokers": [3], "only": "drain", "disk_band": 0.2, "max_moves": 7},
    cluster={"drain_brokers": [5, 1], "max_moved_gb": 100.0, "pins": [{"topics": "audit", "racks": ["a", "b"]}]},
    solver={"rounds": 3},
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {"drain_brokers": (1, 5), "demote_brokers": (3,), "only": "drain", "max_moved_gb": 100, "max_moves": 7}),
        ("--drain 6,1", {"drain_brokers": (1, 5, 6)}),
        ("--exclude-brokers 6 --demote 2", {"exclude_brokers": (6,), "demote_brokers": (2, 3)}),
        ("--keep 1", {"drain_brokers": (5,)}),
        ("--keep 5,1", {"drain_brokers": ()}),
        ("--drain 6 --keep 6", {"drain_brokers": (1, 5)}),
        ("--only none", {"only": "", "drain_brokers": (1, 5)}),
        ("--only racks", {"only": "racks"}),
        ("--set policy.max_moved_gb=3", {"max_moved_gb": 3.0, "max_moves": 7}),
        ("--set policy.drain_brokers=[2]", {"drain_brokers": (2,)}),
        ("--set policy.pins=[]", {"pins": ()}),
    ],
)
def test_requests(words: str, expected: dict[str, Any]) -> None:
    """Lists add to those of the run and of the cluster's own table; other options replace both."""
    settings = settings_for(RUN, asked(*words.split()))
    [requests] = settings.cluster_policies().values()
    assert {name: getattr(requests, name) for name in expected} == expected
    assert (settings.policy.disk_band, settings.solver.rounds) == (0.2, 3)
    if "pins" not in expected:
        [pin] = requests.pins
        assert (pin.topics, pin.racks) == ("audit", ("a", "b"))


def test_a_question_without_a_change_has_the_requests_of_the_run() -> None:
    """The cluster's own table and [policy] become one policy, with the same requests."""
    [asked_], [own] = (s.cluster_policies().values() for s in (settings_for(RUN, Question()), RUN.settings))
    assert asked_ == own


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--keep 1,2,6", "--keep 2, 6: the run does not drain it; it drains [1, 5]"),
        ("--set policy.disk_band=-1", "[policy] disk_band = -1.0 is not usable"),
        ("--set policy.disk_bant=1", "[policy]: unknown 'disk_bant' (did you mean 'disk_band'?)"),
        ("--set solver.rounds=x", "[solver] rounds = 'x': expected a whole number"),
    ],
)
def test_refused_settings(words: str, message: str) -> None:
    """A broker that is not drained and a wrong value are refused."""
    with pytest.raises(ConfigError) as error:
        settings_for(RUN, asked(*words.split()))
    assert str(error.value).startswith(message)


def _brokers(facts: RunFacts, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in records(facts.brokers)]


@pytest.mark.parametrize(
    ("words", "racks"),
    [
        ("--add-broker 7 --rack b", {7: "b"}),
        ("--add-broker 8,7 --rack b", {7: "b", 8: "b"}),
        ("--add-broker 8,7 --rack b,c", {7: "c", 8: "b"}),
        # Racks a and b have two brokers; rack c has one. After the first the three are equal, and the name decides.
        ("--add-broker 7,8,9", {7: "c", 8: "a", 9: "b"}),
        ("--add-broker 7 --lose-rack c", {7: "a"}),
        ("--add-broker 7,8 --lose-broker 1", {7: "a", 8: "c"}),
        ("--add-broker 7 --lose-rack b --rack b", {7: "b"}),
    ],
)
def test_new_brokers(words: str, racks: dict[int, str]) -> None:
    """They are like the named broker, alive and empty, also after a loss; by default in the smallest living rack."""
    dirs = [{"path": "/d", "capacity_bytes": 9, "used_bytes": 5, "logs": 2, "is_open": False}]
    like = broker(2, "a", closed_cause="cordoned", closed_reason="cordoned", log_dirs=dirs, in_capacity_bytes_per_s=77)
    facts = make_facts([BROKERS[0], like, *BROKERS[2:5]])
    changed = facts_for(facts, asked("--like", "2", *words.split()))
    new = changed.brokers[changed.brokers["broker_id"].isin(racks)]
    assert changed.brokers["broker_id"].is_monotonic_increasing
    assert dict(zip(new["broker_id"], new["rack"], strict=True)) == racks
    for row in records(new):
        assert (row["state"], row["closed_cause"], row["closed_reason"], row["holds"]) == ("alive", None, None, False)
        assert (row["disk_capacity_bytes"], row["in_capacity_bytes_per_s"]) == (1000 * GB, 77)
        assert row["log_dirs"] == [{"path": "/d", "capacity_bytes": 9, "used_bytes": 0, "logs": 0, "is_open": True}]
    assert len(facts.brokers) == 5


@pytest.mark.parametrize(
    ("words", "in_words"),
    [
        ("--add-broker 7,8,9", "add brokers 7 (a), 8 (b), 9 (c) like 2"),
        ("--add-broker 9,7 --rack c,a", "add brokers 9 (c), 7 (a) like 2"),
        ("--add-broker 7,8 --rack b --lose-rack a", "add brokers 7 (b), 8 (b) like 2, lose rack a"),
        ("--add-broker 7 --lose-rack a", "add broker 7 (b) like 2, lose rack a"),
        ("--drain 1", "drain 1"),
    ],
)
def test_the_racks_of_new_brokers_are_in_words(words: str, in_words: str) -> None:
    """Also those that are chosen; and the broker that they are like."""
    like = ["--like", "2"] if "--add-broker" in words else []
    assert with_racks(make_facts(), asked(*like, *words.split())).words() == in_words


def test_new_brokers_without_racks() -> None:
    """In a cluster without racks new brokers have none, and unknown capacities stay unknown."""
    facts = make_facts([broker(number, None, disk_capacity_bytes=None) for number in range(1, 7)])
    changed = facts_for(facts, asked("--add-broker", "7,8", "--like", "2"))
    assert _brokers(changed, "broker_id", "rack", "disk_capacity_bytes")[-2:] == [(7, None, None), (8, None, None)]
    assert with_racks(facts, asked("--add-broker", "7,8", "--like", "2")).words() == "add brokers 7, 8 like 2"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--add-broker 7,3,1 --like 2", "--add-broker 1, 3: cluster orders has it already; give an unused id"),
        ("--add-broker 3 --like 2 --lose-broker 3", "--add-broker 3: cluster orders has it already"),
        ("--add-broker 7,8,7 --like 2", "--add-broker 7: the id is given twice; give each new broker its own id"),
        ("--add-broker 7 --like 9", "--like 9: cluster orders has no such broker; known are [1, 2, 3, 4, 5, 6]"),
        (
            "--add-broker 7 --like 2 --rack d",
            "--rack d: cluster orders has no such rack; known are ['a', 'b', 'c']",
        ),
        ("--add-broker 7,8,9 --like 2 --rack a,b", "--rack: give one rack for all new brokers, or 3, one each"),
        (
            "--lose-broker 9,8,1",
            "--lose-broker 8, 9: cluster orders has no such broker; known are [1, 2, 3, 4, 5, 6]",
        ),
        ("--lose-broker 7 --add-broker 7 --like 2", "--lose-broker 7: cluster orders has no such broker"),
        ("--lose-rack d,a", "--lose-rack d: cluster orders has no such rack; known are ['a', 'b', 'c']"),
        ("--load 2 --topics click", "--topics click: it matches no topic of the cluster"),
    ],
)
def test_refused_clusters(words: str, message: str) -> None:
    """A name that the cluster lacks or already has is refused, with the known names."""
    with pytest.raises(ConfigError) as error:
        facts_for(make_facts(), asked(*words.split()))
    assert str(error.value).startswith(message)


# Before the loss of brokers 1 and 2: list, ISR, ELR, leader, and the list of the controller while in flight.
# After it: ISR, ELR, leader.
LOSSES: Sequence[tuple[dict[str, Any], tuple[Any, ...]]] = (
    ({"replicas": [1, 3, 5]}, ([3, 5], None, 3)),
    ({"replicas": [3, 1, 5]}, ([3, 5], None, 3)),
    ({"replicas": [3, 5, 1], "leader": 5}, ([3, 5], None, 5)),
    ({"replicas": [1, 5, 3], "isr": [1, 3]}, ([3], None, 3)),
    ({"replicas": [1, 5, 3], "isr": [1, 3, 5]}, ([3, 5], None, 5)),
    ({"replicas": [1, 2, 3], "isr": [1, 2]}, ([], None, None)),
    ({"replicas": [1, 2]}, ([], None, None)),
    ({"replicas": [1, 3], "leader": None, "isr": [3]}, ([3], None, None)),
    ({"replicas": [3, 5], "leader": None, "isr": []}, ([], None, None)),
    ({"replicas": [1, 3, 5], "isr": [1], "elr": [3, 2]}, ([], [3], None)),
    ({"replicas": [1, 3, 5], "elr": []}, ([3, 5], [], 3)),
    # In flight: 5 is the first living in-sync replica of the controller's list, 6 of the target.
    ({"replicas": [6, 5], "leader": 1, "isr": [1, 5, 6], "controller_replicas": [1, 5, 6]}, ([5, 6], None, 5)),
)


@pytest.mark.parametrize("words", ["--lose-broker 1,2", "--lose-rack a", "--lose-rack a --lose-broker 2"])
def test_losses(words: str) -> None:
    """Lost brokers are dead and out of ISR and ELR; the first living in-sync replica of the list leads."""
    facts = make_facts(BROKERS, [partition("t", n, before.pop("replicas"), **before) for n, before in _copies(LOSSES)])
    changed = facts_for(facts, asked(*words.split()))
    assert _brokers(changed, "broker_id", "state") == [
        *((1, "dead"), (2, "dead"), (3, "alive"), (4, "alive"), (5, "alive"), (6, "alive"))
    ]
    assert [
        (row["isr"], row["elr"], row["leader"]) for row in records(changed.partitions)
    ] == [after for _, after in LOSSES]  # fmt: skip
    pd.testing.assert_series_equal(changed.partitions["replicas"], facts.partitions["replicas"])
    assert list(facts.brokers["state"]) == ["alive"] * 6


def _copies(losses: Sequence[tuple[dict[str, Any], tuple[Any, ...]]]) -> list[tuple[int, dict[str, Any]]]:
    return [(number, dict(before)) for number, (before, _) in enumerate(losses)]


def test_brokers_that_were_dead_before_the_loss_stay_dead() -> None:
    """Only lost brokers change their state."""
    facts = make_facts([*BROKERS[:4], broker(5, "c", state="fenced"), broker(6, "c", state="dead")])
    assert _brokers(facts_for(facts, asked("--lose-broker", "1")), "state") == [
        *(("dead",), ("alive",), ("alive",), ("alive",), ("fenced",), ("dead",))
    ]


@pytest.mark.parametrize(
    ("words", "sizes", "rates"),
    [
        ("--load 1.5", (4, 150), (2, 16)),
        ("--sizes 0.5", (2, 50), (1, 11)),
        ("--rates 2", (3, 100), (2, 22)),
        ("--sizes 2 --rates 0.25", (6, 200), (0, 3)),
        ("--load 2 --topics t", (6, 100), (2, 11)),
        ("--load 2 --topics tt?", (6, 200), (2, 22)),
    ],
)
def test_loads(words: str, sizes: tuple[int, ...], rates: tuple[int, ...]) -> None:
    """Loads are scaled and rounded to whole bytes, half to even; of topics with a matching whole name."""
    rows = [
        partition("t", 0, [1, 3], size_bytes=3, in_bytes_per_s=1, out_bytes_per_s=1),
        partition("tt", 0, [1, 3], size_bytes=100, in_bytes_per_s=11, out_bytes_per_s=11),
    ]
    changed = facts_for(make_facts(BROKERS, rows), asked(*words.split())).partitions
    assert tuple(changed["size_bytes"]) == sizes
    assert tuple(changed["in_bytes_per_s"]) == tuple(changed["out_bytes_per_s"]) == rates
    assert all(changed[name].dtype == np.int64 for name in ("size_bytes", "in_bytes_per_s", "out_bytes_per_s"))


def test_a_question_without_a_change_has_the_facts_of_the_run() -> None:
    """Requests change no fact."""
    facts = make_facts(BROKERS, PARTITIONS)
    assert facts_for(facts, asked("--drain", "1", "--load", "1")) == facts


def test_a_broker_with_another_disk_in_another_rack() -> None:
    """Its directories keep their shares; the others stay as they are, and the facts of the run too."""
    path = {"used_bytes": 5, "logs": 1, "is_open": True}
    dirs = [{"path": "/a", "capacity_bytes": 750 * GB, **path}, {"path": "/b", "capacity_bytes": 250 * GB, **path}]
    facts = make_facts([*BROKERS[:5], broker(6, "c", log_dirs=dirs)])
    asked_for = facts_for(facts, asked("--disk", "6=3TB", "--disk", "5=2TB", "--rack-of", "6=d")).brokers
    rows = {row["broker_id"]: row for row in records(asked_for)}
    assert [rows[number]["disk_capacity_bytes"] for number in (4, 5, 6)] == [1000 * GB, 2000 * GB, 3000 * GB]
    assert [rows[number]["rack"] for number in (5, 6)] == ["c", "d"]
    assert [each["capacity_bytes"] for each in rows[6]["log_dirs"]] == [2250 * GB, 750 * GB]
    assert records(facts.brokers) == records(make_facts([*BROKERS[:5], broker(6, "c", log_dirs=dirs)]).brokers)


@pytest.mark.parametrize("words", ["--disk 9=1TB", "--rack-of 9=a"])
def test_another_disk_or_rack_needs_a_broker_of_the_cluster(words: str) -> None:
    """The message names those that there are."""
    with pytest.raises(ConfigError, match=r"9: cluster orders has no such broker; known are \[1, 2, 3, 4, 5, 6\]"):
        facts_for(make_facts(), asked(*words.split()))
