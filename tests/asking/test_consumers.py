"""What happens to a consumer group when a member leaves or some join."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from asking.cli import main
from benchmarks.rows import row
from tests.asking.small_run import CLUSTER, KEY, make_facts, write_run
from tests.docs.pages import ROOT, blocks, output_under

Held = Mapping[str, Sequence[int]]
# Topic clicks has seven partitions of 1 MB/s.
STICKY: Held = {"m1": (0, 1, 2), "m2": (3, 4), "m3": (5, 6)}


def run_main(folder: Path, *words: str, held: Held = STICKY, group_id: str = "g=1", **of_group: Any) -> int:
    """The exit code of a question about a group."""
    stated = {"protocol": "classic", "assignor": "sticky", "members": len(held), "is_complete": True, "topics": []}
    members = [
        {"member_id": f"{name}-id", "client_id": "c" if name > "m1" else name, "instance_id": None,
         "assigned": [{"topic": "clicks", "partitions": [*numbers]}]}
        for name, numbers in held.items()
    ]  # fmt: skip
    written = write_run(folder, make_facts())
    written.append("consumer_groups", [row("consumer_groups", **KEY, group_id=group_id, **{**stated, **of_group})])
    written.append("consumer_members", [row("consumer_members", **KEY, group_id=group_id, **each) for each in members])
    return main(["ask", "--warehouse", written.path, "--cluster", CLUSTER, *words])


@pytest.mark.parametrize(
    ("words", "of_group", "sentence"),
    [
        (
            ["--consumer-leaves", "g=1"],
            {},
            "If member m1-id leaves g=1 (sticky), 3 of 7 partitions move, all stop meanwhile; the busiest member reads "
            "3.00 MB/s (m1-id) now, 4.00 MB/s (m2-id) then.",
        ),
        (
            ["--consumer-leaves", "g=1=m2-id"],
            {"assignor": "cooperative-sticky"},
            "If member m2-id leaves g=1 (cooperative-sticky), 2 of 7 partitions move, only these stop meanwhile; "
            "the busiest member reads 3.00 MB/s (m1-id) now, 4.00 MB/s (m1-id) then.",
        ),
        (
            ["--consumers", "g=1=+2"],
            {"assignor": "cooperative-sticky"},
            "If 2 members join g=1 (cooperative-sticky), 2 of 7 partitions move, only these stop meanwhile; the "
            "busiest member reads 3.00 MB/s (m1-id) now, 2.00 MB/s (m1-id) then.",
        ),
        (
            ["--consumers", "g=1=+1"],
            {"assignor": "range"},
            "If 1 member joins g=1 (range), 3 of 7 partitions move, all stop meanwhile; the busiest member "
            "reads 3.00 MB/s (m1-id) now, 2.00 MB/s (m1-id) then.",
        ),
    ],
)
def test_the_first_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], of_group: dict[str, Any], sentence: str
) -> None:
    """What moves, what stops, and the busiest member; a name of a group may have an equals sign."""
    assert run_main(tmp_path, *words, **of_group) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(sentence)


def test_the_page_shows_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of the page on asking is this group of this cluster."""
    [block] = [block for block in blocks("sh", pages=(ROOT / "docs" / "asking.md",)) if "--consumer-" in block.body]
    words = shlex.split(block.body)
    assert words[:4] == ["./ballast", "ask", "--cluster", CLUSTER]
    assert run_main(tmp_path, *words[4:], group_id="clicks-app", assignor="cooperative-sticky") == 0
    assert capsys.readouterr().out.strip("\n") == output_under(block)


def test_more_members_than_partitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The waste is named with its number, also on the page."""
    page = tmp_path / "page.html"
    assert run_main(tmp_path, "--consumers", "g=1=+6", "--html", str(page)) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Then 2 of 9 members have nothing to read; the group has 7 partitions." in text
    assert "reads 3.00 MB/s (m1-id) now, 1.00 MB/s (m1-id) then" in text
    assert "nothing to read" in page.read_text(encoding="utf-8")


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line has all figures."""
    assert run_main(tmp_path, "--consumer-leaves", "g=1=m1", "--json") == 0
    [line] = capsys.readouterr().out.splitlines()
    content = json.loads(line)
    assert (content["group_id"], content["assignor"], content["partitions"]) == ("g=1", "sticky", 7)
    assert (content["partitions_moved"], content["partitions_stopped"]) == (3, 7)
    busiest = {"busiest": "m1-id", "busiest_partitions": 3, "busiest_in_bytes_per_s": 3_000_000}
    assert content["now"] == {"members": 3, "idle_members": 0, **busiest}
    assert content["then"]["members"] == 2
    assert content["headline"].startswith("If member m1-id leaves")
    assert content["notes"] == ["All members are assumed to subscribe to all topics of the group, without client.rack."]


def test_an_assignment_that_the_assignor_would_not_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer says that its assumption does not fit."""
    assert (
        run_main(tmp_path, "--consumer-leaves", "g=1", held={"m1": (0, 2, 4), "m2": (1, 3, 5, 6)}, assignor="range")
        == 0
    )
    assert "the figures may be wrong" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "of_group", "message"),
    [
        (["--consumer-leaves", "h"], {}, "--consumer-leaves h: the run knows no group h; known: g=1. Or give its"),
        (["--consumers", "h=+1"], {}, "--consumers h: the run knows no group h"),
        (["--consumer-leaves", "g=1=x"], {}, "no member has this id; members are m1-id, m2-id, m3-id"),
        (["--consumer-leaves", "g=1=c"], {}, "2 members have this client id; members are m1-id"),
        (
            ["--consumer-leaves", "g=1"],
            {"assignor": "uniform"},
            "the assignor of g=1, uniform, is none of range, roundrobin, s",
        ),
        (["--consumer-leaves", "g=1"], {"assignor": None}, "the assignor of g=1, unknown, is none of"),
        (
            ["--consumer-leaves", "g=1"],
            {"held": {"m1": (0, 1)}},
            "a partition of its topics has no holder or two; give",
        ),
        (["--consumer-leaves", "g=1"], {"held": {"m1": range(7)}}, "g=1 has no other member, so nobody would read"),
        (["--consumers", "g=1"], {}, "'g=1' is not a consumer group and its new members: write orders=+2"),
        (["--consumers", "g=1=+0"], {}, "is not a consumer group and its new members"),
        (["--consumers", "g=1=+1", "--consumer-leaves", "g=1"], {}, "different questions: ask them one by one"),
        (["--consumers", "g=1=+1", "--restart"], {}, "different questions: ask them one by one"),
        (["--consumers", "g=1=+1", "--drain", "3"], {}, "do not depend on the plan: leave out drain 3"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], of_group: dict[str, Any], message: str
) -> None:
    """Each with exit code 2 and what to do."""
    try:
        assert run_main(tmp_path, *words, **of_group) == 2
    except SystemExit as stopped:  # by the parser
        assert stopped.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
