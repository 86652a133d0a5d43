"""The solver with one part changed, on a cluster of twelve brokers."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from benchmarks import ablations
from benchmarks.ablations import (
    GROUPS,
    VARIANTS,
    Measure,
    Measured,
    ResultStore,
    Variant,
    cell,
    document,
    instances_of,
    loss_percent,
    main,
    of_instance,
)
from benchmarks.generate import build
from benchmarks.workload import Shape
from optimizer.settings import Settings
from optimizer.solve.tuning import TUNED

pytestmark = pytest.mark.all_only

AS_IT_IS, *CHANGED = VARIANTS


@pytest.fixture(scope="module")
def measure() -> Measure:
    """Plans a grown cluster."""
    return of_instance(build(Shape(12, 300, 3), "expand", 1), Settings())


@pytest.fixture(scope="module")
def small(measure: Measure) -> Measure:
    """The same, each variant once."""
    return cache(measure)


@pytest.fixture(scope="module")
def as_it_is(small: Measure) -> Measured:
    """Its plan by the solver with nothing changed."""
    return small(AS_IT_IS)


@pytest.mark.parametrize("variant", CHANGED, ids=lambda variant: variant.name)
def test_a_change_changes_something_and_beats_no_bound(small: Measure, as_it_is: Measured, variant: Variant) -> None:
    """What a variant sets is not what is set without it, and no plan of it lies below what is proven."""
    assert all(getattr(TUNED, name) != value for name, value in variant.tuning)
    assert all(getattr(Settings().solver, name) != value for name, value in variant.knobs)
    assert variant.tuning or variant.knobs
    changed = small(variant)
    assert 0 < as_it_is.bound_bytes <= changed.moved_bytes or changed.outside
    assert changed.bound_bytes <= as_it_is.moved_bytes


def test_a_tuning_is_of_one_plan_alone(measure: Measure, small: Measure, as_it_is: Measured) -> None:
    """Rounding alone copies more, or leaves brokers outside; the next plan is as before."""
    alone = next(variant for variant in VARIANTS if variant.name == "rounding alone, no exchange")
    rounded, repeated = small(alone), measure(AS_IT_IS)
    assert rounded.outside or rounded.moved_bytes > as_it_is.moved_bytes
    assert replace(repeated, cpu_seconds=0) == replace(as_it_is, cpu_seconds=0)


MEASURED = Measured(moved_bytes=102, bound_bytes=100, moves=7, cpu_seconds=1.25, outside=0, violation=0.0)


def test_a_cell_has_gap_moves_seconds_and_what_stays_outside() -> None:
    """The gap is to the bound of the plan as it is; where nothing has to be copied, and is not, there is none."""
    nothing = replace(MEASURED, moved_bytes=0, bound_bytes=0, moves=0)
    assert cell(nothing, nothing) == "0.000 % / 0 / 1.2"
    assert cell(MEASURED, replace(MEASURED, bound_bytes=100)) == "2.000 % / 7 / 1.2"
    assert cell(replace(MEASURED, outside=2), MEASURED).endswith(" / 1.2, 2 outside")


def test_a_loss_is_of_bytes_copied_or_of_bytes_proven() -> None:
    """In percent of the best bound, whichever is more."""
    assert loss_percent(replace(MEASURED, moved_bytes=105), MEASURED) == pytest.approx(3)
    assert loss_percent(replace(MEASURED, bound_bytes=90), MEASURED) == pytest.approx(10)


def test_the_page_ends_with_what_seems_not_to_pay() -> None:
    """A part whose loss is small everywhere is listed with what it insures against; one that loses somewhere is not."""
    results = {variant.name: [MEASURED, MEASURED] for variant in VARIANTS}
    results["no bound by whole replicas"] = [MEASURED, replace(MEASURED, bound_bytes=99)]
    results["no search of small clusters"] = [replace(MEASURED, outside=1, violation=0.1), MEASURED]
    results["one price on moves"] = [replace(MEASURED, cpu_seconds=0.75), MEASURED]
    page = document({"Size S": ["drift-1"], "Unusual shapes": ["bare"]}, results)
    assert "## Size S\n\n|  | drift-1 |\n| --- | ---: |\n| as it is | 2.000 % / 7 / 1.2 |\n" in page
    assert "## Unusual shapes\n\n|  | bare |\n" in page
    ending = page.split("## Parts with little effect")[1]
    assert "| one price on moves | 0.000 | 80 | plans of many small moves where a few large ones would do |" in ending
    assert "no bound by whole replicas" not in ending and "no search of small clusters" not in ending
    assert "shards of 15 brokers" not in ending


def test_what_was_measured_is_kept_until_the_code_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By instance and variant; a line that was cut off as the command was killed is measured again."""
    measured: list[str] = []

    def measure(variant: Variant) -> Measured:
        measured.append(variant.name)
        return replace(MEASURED, moves=len(measured))

    path = tmp_path / "kept" / "figures.jsonl"
    usual, other_variant = VARIANTS[:2]
    before = [ResultStore(path).of("S-drift", variant, lambda: measure) for variant in (usual, other_variant)]
    repeated = [ResultStore(path).of("S-drift", variant, lambda: measure) for variant in (usual, other_variant)]
    assert (repeated, measured) == (before, [usual.name, other_variant.name])
    ResultStore(path).of("bare", usual, lambda: measure)
    ResultStore(path).of("S-drift", replace(usual, knobs=(("rounds", 1),)), lambda: measure)
    assert len(measured) == 4
    path.write_text(path.read_text()[:-20])
    ResultStore(path).of("S-drift", replace(usual, knobs=(("rounds", 1),)), lambda: measure)
    assert len(measured) == 5
    monkeypatch.setattr(ablations, "code_version", lambda: "another")
    ResultStore(path).of("S-drift", usual, lambda: measure)
    assert len(measured) == 6


def test_instances_are_asked_for_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of the page; a name that is none is refused with those that are."""
    assert instances_of(["bare", "S-drift"]) == {"Size S": ["S-drift"], "Unusual shapes": ["bare"]}
    assert instances_of([]) == {title: list(names) for title, names in GROUPS.items()}
    with pytest.raises(SystemExit):
        main(["S-drift", "bear"])
    assert "bear: known are S-expand, S-decom" in capsys.readouterr().err
