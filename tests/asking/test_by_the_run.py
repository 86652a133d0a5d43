"""Every column is judged by the bands and requests of the run; a column's own bands are a remark."""

from pathlib import Path
from typing import Any

import pytest

from asking.answer import LEAVING, OUTSIDE, Answer, answer
from asking.answer_text import remarks
from asking.ask import stored_figures
from asking.run_facts import read_facts
from optimizer.planning.plan_figures import Figures
from optimizer.settings import BANDS
from tests.asking.small_run import CLUSTER, RUN, asked, make_facts, write_run

NO_BANDS = [word for band in BANDS for word in ("--set", f"policy.{band}=100")]


def _run_and_answer(folder: Path, run: dict[str, Any], *words: str) -> tuple[Figures, Answer]:
    warehouse = write_run(folder, make_facts(**run))
    facts = read_facts(warehouse, CLUSTER, RUN)
    return stored_figures(warehouse, facts), answer(facts, asked(*words, name="x"))


@pytest.mark.parametrize("words", [("--only", "leaders"), ("--only", "racks"), (*NO_BANDS, "--keep", "2")])
def test_a_plan_that_copies_nothing_leaves_the_brokers_as_they_are(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As many brokers are outside bands as before the plan, whatever its own bands are."""
    run: dict[str, Any] = {"policy": {"drain_brokers": [2]}}
    stored, item = _run_and_answer(tmp_path, run, *words)
    assert item.compared["moved_bytes"][1] == 0
    before, after = item.compared[OUTSIDE]
    assert before == after and after
    if "--keep" not in words:
        assert item.compared[OUTSIDE][0] == stored[OUTSIDE][0]
        assert item.compared[LEAVING] == (stored[LEAVING][0], stored[LEAVING][0]) != (0, 0)


def test_own_bands_are_a_remark(tmp_path: Path) -> None:
    """The table has the bands of the run, and a sentence those of the column; a question without bands has none."""
    _, item = _run_and_answer(tmp_path, {}, *NO_BANDS)
    assert item.compared[OUTSIDE][1] == 6
    assert item.figures[OUTSIDE][1] == 0
    assert "x: 0 brokers are outside its own bands." in [*remarks([item])]
    _, other = _run_and_answer(tmp_path / "other", {}, "--only", "leaders")
    assert not any("own bands" in line for line in remarks([other]))


def test_a_waiting_run_judges_by_its_wide_bands(tmp_path: Path) -> None:
    """A run that waits is outside no band; so is a plan with other bands that copies nothing."""
    stored, item = _run_and_answer(tmp_path, {"policy": {"start_at": 3.0}}, "--set", "policy.disk_band=0.2")
    assert stored[OUTSIDE] == item.compared[OUTSIDE]


def test_only_of_a_run_that_drains(tmp_path: Path) -> None:
    """A question that keeps the only broker to empty is judged without ``only``: the run would be refused."""
    run: dict[str, Any] = {"policy": {"drain_brokers": [2], "only": "drain"}}
    _, item = _run_and_answer(tmp_path, run, "--keep", "2", "--only", "none")
    assert item.compared[OUTSIDE] == item.figures[OUTSIDE]
