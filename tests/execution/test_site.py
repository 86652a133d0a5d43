"""./ballast report --all: a static site from the tables, for reading alone."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from execution.cli import main
from optimizer.emit.inside_sentences import Copied
from optimizer.emit.site_pages import Imbalance, Night, RunLine, index_page, nights_page
from optimizer.units import NEVER_SECONDS
from stored.tables import Warehouse
from tests.emit.texts import by_header, html_tables
from tests.execution.finished_runs import (
    GB,
    HOUR,
    NOW,
    add_documents,
    add_figures,
    add_plan,
    copy_wave,
    end,
    key_of,
)
from tests.execution.test_report_command import files
from tests.execution.test_runs import approve, revoke
from tests.execution.warehouse import CLUSTER, RUN, VALID_HOURS, Inside, add_waves, plan_of, write_plan

HEAD = ("../report.css", "../index.html")  # links at the top of each cluster's page
DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Two nights of clusters a and b: executed in part, refused, nothing to do, and never approved."""
    warehouse = Warehouse(str(tmp_path / "w"))
    end(warehouse, "n1", a="planned", b="refused")
    add_plan(warehouse, "n1", "a")
    add_plan(warehouse, "n1", "b")
    approve(warehouse, "n1", "a", "ann")
    copy_wave(warehouse, "n1", "a", 1, 1.5)
    end(warehouse, "n2", a="nothing_to_do", b="planned")
    add_documents(warehouse, "n2", "a", {"report.html": "<p>idle</p>"})
    add_figures(warehouse, "n2", "a", brokers_outside_bands=(0.0, 0.0))
    add_documents(warehouse, "n2", "b")
    add_waves(warehouse, "n2", "b", 1, moved_bytes=5 * GB, estimated_seconds=HOUR)
    return warehouse


def site(warehouse: Warehouse, folder: Path) -> dict[str, bytes]:
    """The files of a new site."""
    assert main(["report", "--all", "--to", str(folder), "--warehouse", warehouse.path]) == 0
    return files(folder)


def cells(page: bytes) -> list[list[str]]:
    """The texts of the cells of each row, without the header; times are replaced by their form."""
    rows = re.findall(r"<tr>(<th scope=\"row\".*?)</tr>", page.decode(), re.DOTALL)
    texts = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[DATE.sub("DATE", re.sub(r"<[^>]*>", "", text)) for text in row] for row in texts]


def links(page: bytes) -> list[str]:
    """The targets of all links."""
    return re.findall(r'href="([^"]*)"', page.decode())


def bars(page: bytes) -> list[tuple[str, ...]]:
    """Width of the done part, start and width of the rest, for each row."""
    drawn = re.findall(r'<td class="draw short"><svg[^>]*>(.*?)</svg>', page.decode())
    return [tuple(re.findall(r'(?:x|width)="([^"]*)%"', svg)) for svg in drawn]


def test_the_site_has_pages_for_people_alone(warehouse: Warehouse, tmp_path: Path) -> None:
    """Reports of plans and quality pages; no JSON and no script, so that nobody executes an old plan."""
    found = site(warehouse, tmp_path / "s")
    assert found.keys() == {
        *("index.html", "report.css", "clusters/a.html", "clusters/b.html"),
        *("n1/index.html", "n1/report.css", "n2/index.html", "n2/report.css"),
        *("n1/a/report.html", "n1/a/report.css", "n1/quality/a.html", "n1/quality/b.html"),
        *("n2/a/report.html", "n2/b/report.html", "n2/b/report.css"),
    }
    assert found["n1/a/report.html"] == '<p>\U0001f600 plan, Runbook, <a href="#b">b</a></p>\r\n'.encode()
    assert found["n2/a/report.html"] == b"<p>idle</p>"


def test_the_first_page_lists_runs_newest_first(warehouse: Warehouse, tmp_path: Path) -> None:
    """Verdicts, approval, executed waves and bytes of all clusters, with links to what exists."""
    page = site(warehouse, tmp_path / "s")["index.html"]
    assert cells(page) == [
        ["n2", "DATE", "a, b", "1 nothing_to_do, 1 planned", "-", "0 of 1", "5.00 GB", "0 B"],
        ["n1", "DATE", "a, b", "1 planned, 1 refused", "ann", "1 of 2", "20.0 GB", "10.0 GB"],
    ]
    assert links(page) == [
        *("report.css", "clusters/b.html", "clusters/a.html"),
        *("n2/index.html", "n2/a/report.html", "n2/b/report.html"),
        *("n1/index.html", "n1/a/report.html", "n1/quality/b.html"),
    ]


def test_a_cluster_has_a_row_for_each_night(warehouse: Warehouse, tmp_path: Path) -> None:
    """Plan and execution next to each other; tables of a refused plan are no facts of the night."""
    found = site(warehouse, tmp_path / "s")
    assert cells(found["clusters/a.html"]) == [
        ["n2", "", "0 B", "0 B", "nothing_to_do", "DATE", "-", "0 → 0", "-", "-", "-", "-"],
        [
            *("n1", "", "20.0 GB", "10.0 GB", "planned", "DATE", "75 → 51 %", "7 → 0"),
            *("2.0 to 4.0", "1.5 (1 of 2)", "1 of 2", "ann"),
        ],
    ]
    assert cells(found["clusters/b.html"]) == [
        ["n2", "", "5.00 GB", "0 B", "planned", "DATE", "75 → 51 %", "-", "1.0", "-", "0 of 1", "-"],
        ["n1", "", "-", "-", "refused", "DATE", *"------"],
    ]
    assert links(found["clusters/a.html"]) == [*HEAD, "../n2/a/report.html", "../n1/a/report.html"]
    assert links(found["clusters/b.html"]) == [*HEAD, "../n2/b/report.html", "../n1/quality/b.html"]


def test_pages_name_no_approver_of_a_revoked_plan(warehouse: Warehouse, tmp_path: Path) -> None:
    """In the list of runs and in the nights of the cluster; what was executed before stays."""
    revoke(warehouse, "n1", "a", "eve", at=NOW + timedelta(hours=1))
    found = site(warehouse, tmp_path / "s")
    assert cells(found["index.html"])[1][4:6] == ["-", "1 of 2"]
    assert cells(found["clusters/a.html"])[1][-2:] == ["1 of 2", "-"]


def test_the_page_of_a_run_has_its_decisions(warehouse: Warehouse, tmp_path: Path) -> None:
    """Verdicts and decisions of the last attempt, with links to the pages of the site alone."""
    found = site(warehouse, tmp_path / "s")
    page = found["n1/index.html"].decode()
    assert page.count("Move \u00e9 20 GB") == 1
    own = {"report.css", "quality/b.html", "a/report.html", "quality/a.html"}
    assert {*links(found["n1/index.html"])} == {*own, "../index.html"}


def test_the_report_of_an_earlier_attempt_is_not_linked(warehouse: Warehouse, tmp_path: Path) -> None:
    """The site deletes nothing, so the page of a plan that was refused since is still there."""
    site(warehouse, tmp_path / "s")
    end(warehouse, "n1", attempt=2, a="refused")
    found = site(warehouse, tmp_path / "s")
    assert "n1/a/report.html" in found
    assert "a/report.html" not in links(found["n1/index.html"])
    assert "../n1/a/report.html" not in links(found["clusters/a.html"])


def test_bars_are_shares_of_the_largest_night(warehouse: Warehouse, tmp_path: Path) -> None:
    """The done part is dark, the rest of the plan is light."""
    end(warehouse, "n3", a="planned")
    add_waves(warehouse, "n3", "a", 4, moved_bytes=10 * GB)
    copy_wave(warehouse, "n3", "a", 2, 1)
    found = site(warehouse, tmp_path / "s")
    assert bars(found["clusters/a.html"]) == [("25", "25", "75"), ("0", "0", "0"), ("25", "25", "25")]
    assert bars(found["clusters/b.html"]) == [("0", "0", "100"), ("0", "0", "0")]


def test_measured_times_are_added(warehouse: Warehouse, tmp_path: Path) -> None:
    """If all waves are timed, their number is not repeated; a wave without ``copied`` is done but not timed."""
    copy_wave(warehouse, "n1", "a", 2, 0.5)
    copy_wave(warehouse, "n2", "b", 1, None)
    found = site(warehouse, tmp_path / "s")
    assert cells(found["clusters/a.html"])[1][9] == "2.0"
    assert cells(found["clusters/b.html"])[0][3:10] == ["5.00 GB", "planned", "DATE", "75 → 51 %", "-", "1.0", "-"]


def test_a_wave_that_never_ends_has_no_hours(warehouse: Warehouse, tmp_path: Path) -> None:
    """Its rate is below what Kafka's throttle can enforce."""
    end(warehouse, "n3", a="planned")
    times = {"estimated_seconds": HOUR, "least_seconds": HOUR, "most_seconds": NEVER_SECONDS}
    add_waves(warehouse, "n3", "a", 2, moved_bytes=GB, **times)
    assert cells(site(warehouse, tmp_path / "s")["clusters/a.html"])[0][8] == "2.0 to never"


def test_every_link_leads_to_a_page(warehouse: Warehouse, tmp_path: Path) -> None:
    """Relative links alone; nothing is loaded from elsewhere."""
    folder = tmp_path / "s"
    for name, page in site(warehouse, folder).items():
        if "/a/" not in name and "/b/" not in name:
            missing = [link for link in links(page) if not (folder / name).parent.joinpath(link).is_file()]
            assert (name, missing) == (name, [])


def test_pages_are_complete_and_plain(warehouse: Warehouse, tmp_path: Path) -> None:
    """Title, language, headers with scope; no style attribute, no script, no address; names are escaped."""
    approve(warehouse, "n2", "b", "<script>")
    found = site(warehouse, tmp_path / "s")
    for name in ("index.html", "clusters/a.html", "clusters/b.html"):
        text = found[name].decode()
        assert '<html lang="en">' in text
        assert re.search("<title>[^<]+</title>", text)
        assert re.findall(r"<th(?! scope)", text.replace("<thead", "")) == []
        assert [part for part in ("style=", "<script", "http:", "https:") if part in text] == []
    assert "<td>&lt;script&gt;</td>" in found["clusters/b.html"].decode()


def test_equal_tables_give_equal_bytes(warehouse: Warehouse, tmp_path: Path) -> None:
    """No clock: a second site is the same, also over the first one."""
    first = site(warehouse, tmp_path / "s")
    assert site(warehouse, tmp_path / "t") == site(warehouse, tmp_path / "s") == first


def test_other_files_stay(warehouse: Warehouse, tmp_path: Path) -> None:
    """A site in the job's output folder deletes no plan and no rollback."""
    folder = tmp_path / "s"
    assert main(["report", "--run-id", "n1", "--to", str(folder), "--warehouse", warehouse.path]) == 0
    before = files(folder)
    del before["n1/index.html"]  # now it links the page of all runs
    assert before.items() <= site(warehouse, folder).items()


def test_a_fleet_is_counted(warehouse: Warehouse, tmp_path: Path) -> None:
    """More than three clusters are not named, and the run links to its own page."""
    end(warehouse, "fleet", c="refused", d="refused", e="planned", f="planned")
    add_documents(warehouse, "fleet", "e")
    page = site(warehouse, tmp_path / "s")["index.html"]
    assert cells(page)[0][:6] == ["fleet", "DATE", "4 clusters", "2 refused, 2 planned", "-", "0 of 0"]
    assert [link for link in links(page) if "fleet" in link] == ["fleet/index.html"]


def test_tables_and_documents_may_be_gone(warehouse: Warehouse, tmp_path: Path) -> None:
    """A fact of a missing table is a dash; deleted documents have no link."""
    for table in ("plan_summary", "documents", "quality_results", "executions"):
        (tmp_path / "w" / table).rename(tmp_path / table)
    found = site(warehouse, tmp_path / "s")
    assert {path for path in found if path.endswith(("a.html", "b.html", "report.html"))} == {
        *("clusters/a.html", "clusters/b.html"),
    }
    assert cells(found["clusters/a.html"])[1][2:8] == ["20.0 GB", "0 B", "planned", "DATE", "-", "-"]
    assert links(found["clusters/a.html"]) == [*HEAD]


def test_without_tables_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, with the remedy of show."""
    assert main(["report", "--all", "--to", str(tmp_path / "s"), "--warehouse", str(tmp_path / "w")]) == 2
    assert "give the warehouse of the run with --warehouse" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_each_cell_is_below_its_header() -> None:
    """Of runs and nights with other values in each column; unknown ones are dashes, and hostile names stay text."""
    at = datetime(2026, 3, 14, 15, 9, tzinfo=UTC)
    links = {"c<b>": "r1/c/report.html", "d": ""}
    run = RunLine(
        "r<i>1", at, "r1/index.html", links, "1 planned <u>", "ann <b>", 7, 3, Copied(8 * GB, 0), Copied(2 * GB, 0)
    )
    unknown = RunLine("r2", None, "r2/index.html", {}, "refused", "-", None, None, None, None)
    text = index_page([run, unknown], [], most_names=3, sheet="s.css")
    header = ("run", "verdict at (UTC)", "clusters", "verdict", "approved by", "waves executed", "bytes planned",
              "bytes done")  # fmt: skip
    assert html_tables(text)["Runs"] == by_header(
        header,
        ["<r1/index.html> r<i>1", "2026-03-14 15:09", "<r1/c/report.html> c<b> , d", "1 planned <u>", "ann <b>",
         "3 of 7", "8.00 GB", "2.00 GB"],
        ["<r2/index.html> r2", "-", "", "refused", "-", "-", "-", "-"],
    )  # fmt: skip
    night = Night("n<i>1", at, "c", "planned <u>", ("ann <b>", "bob"), 9, 4, Copied(4 * GB, 6 * GB), Copied(3 * GB, 0),
                  "75 → 51 %", Imbalance(7, 2), (5 * HOUR, 6 * HOUR), 8 * HOUR, 2)  # fmt: skip
    none = replace(night, run_id="n2", at=None, approved_by=(), waves=0, planned=None, done=Copied(0, 0), disk="",
                   outside=Imbalance(None, 1), predicted_seconds=None, measured_seconds=None)  # fmt: skip
    half = replace(night, run_id="n3", planned=Copied(5 * GB, 0), done=Copied(0, GB), waves_measured=9)
    text = nights_page("c", [night, none, half], {"n<i>1": "../n1/c.html"}, home="i.html", sheet="s.css")
    names = ("run", "drawn", "planned", "done", "verdict", "verdict at (UTC)", "fullest disk", "outside bands",
              "hours predicted", "measured", "waves", "approved by")  # fmt: skip
    same = ["planned <u>", "2026-03-14 15:09", "75 → 51 %", "7 → 2", "5.0 to 6.0"]
    assert html_tables(text)["Nights"] == by_header(
        names,
        ["<../n1/c.html> n<i>1", "bar:30 upto:30:70", "4.00 GB and 6.00 GB inside brokers", "3.00 GB", *same,
         "8.0 (2 of 9)", "4 of 9",
         "ann <b>, bob"],
        ["n2", "bar:0 upto:0:0", "-", "-", "planned <u>", "-", "-", "- → 1", "-", "-", "-", "-"],
        ["n3", "bar:10 upto:10:40", "5.00 GB", "1.00 GB inside brokers", *same, "8.0", "4 of 9", "ann <b>, bob"],
    )  # fmt: skip


def test_approve_show_and_the_site_have_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a plan that also moves replicas inside brokers: these bytes stay apart from those between brokers."""
    inside: Inside = {("u", 0): ([4, 1], {4: ("/a", "/b"), 1: ("/a", "/c")}), ("v", 0): ([4, 5], {4: ("/b", "/a")})}
    plan = plan_of([{("t", 0): ([1, 2], [1, 3])}], topic_ids={}, inside=[inside])
    moves = [replace(row, size_bytes=size * GB) for row, size in zip(plan.dir_moves, (1, 2, 4), strict=True)]
    waves = [replace(wave, moved_bytes=size * GB) for wave, size in zip(plan.waves, (10, 7), strict=True)]
    warehouse = write_plan(tmp_path / "w", replace(plan, dir_moves=moves, waves=waves, valid_hours=VALID_HOURS))
    for name, rows in (("dir_moves", moves), ("waves", waves)):
        warehouse.append(name, [key_of(RUN, CLUSTER) | vars(row) for row in rows])
    words = "10.0 GB and 7.00 GB inside brokers"
    of_run = ["--run-id", RUN, "--cluster", CLUSTER, "--warehouse", warehouse.path]
    assert main(["approve", *of_run]) == 0
    assert f"It copies {words} in 2 waves" in capsys.readouterr().out
    assert main(["show", "--warehouse", warehouse.path]) == 0
    assert f"  {words}  " in capsys.readouterr().out
    assert main(["show", "--json", "--warehouse", warehouse.path]) == 0
    [[cluster]] = [run["clusters"] for run in json.loads(capsys.readouterr().out)]
    assert (cluster["moved_bytes"], cluster["inside_bytes"]) == (10 * GB, 7 * GB)
    found = site(warehouse, tmp_path / "s")
    assert cells(found["index.html"])[0][-2:] == [words, "0 B"]
    assert cells(found[f"clusters/{CLUSTER}.html"])[0][2:4] == [words, "0 B"]


def test_the_first_page_begins_with_the_clusters(warehouse: Warehouse, tmp_path: Path) -> None:
    """The worst first: verdict, age, goals and fullest disk of its newest run, and a sign for each night."""
    approve(warehouse, "n2", "b", "<bob>")
    header = ("cluster, verdict", "snapshot (UTC)", "goals reached", "fullest disk", "approved by", "last nights",
              "result, or why there is no plan")  # fmt: skip
    age = "2026-10-05 02:00, never expires"
    page = site(warehouse, tmp_path / "s")["index.html"].decode()
    assert html_tables(page)["Clusters"] == by_header(
        header,
        ["<clusters/b.html> b ! Read before you approve", age, "1 of 2", "75 → 51 %", "<bob>", "✖○", "Move é 20 GB"],
        ["<clusters/a.html> a = Nothing to do", "-", "-", "-", "-", "◐=", ""],
    )
    copy_wave(warehouse, "n2", "b", 1, 1)
    assert html_tables(site(warehouse, tmp_path / "t")["index.html"].decode())["Clusters"][0]["last nights"] == "✖✔"
