"""The solver with one part changed, on a cluster of twelve brokers."""

from dataclasses import replace

import pytest

from benchmarks.ablations import VARIANTS, Variant, cell, document, measure
from benchmarks.generate import build
from benchmarks.planned import Outcome, cluster_of, policy_of
from benchmarks.workload import Shape
from optimizer.domain import Cluster
from optimizer.settings import Policy, Settings
from optimizer.solve.rounds.progress import SETTLED

AS_IT_IS, *CHANGED = VARIANTS


@pytest.fixture(scope="module")
def small() -> tuple[Cluster, Settings]:
    """A grown cluster, and its policy."""
    instance = build(Shape(12, 600, 3), "expand", 1)
    return cluster_of(instance, "small"), Settings(policy=policy_of(instance, Policy()))


@pytest.fixture(scope="module")
def as_it_is(small: tuple[Cluster, Settings]) -> Outcome:
    """Its plan by the solver with nothing changed."""
    cluster, settings = small
    return measure(cluster, AS_IT_IS, settings)


@pytest.mark.parametrize("variant", CHANGED, ids=lambda variant: variant.name)
def test_a_change_holds_for_one_plan_only(small: tuple[Cluster, Settings], as_it_is: Outcome, variant: Variant) -> None:
    """What a variant sets is there while it plans, no plan of it beats the bound, and then all is as before."""
    cluster, settings = small
    before = [getattr(owner, name) for owner, name, _ in variant.values]
    assert all(value != now for (_, _, value), now in zip(variant.values, before, strict=True))
    assert all(getattr(settings.solver, name) != value for name, value in variant.knobs)
    changed = measure(cluster, variant, settings)
    assert 0 < as_it_is.bound_bytes <= changed.moved_bytes or changed.violation > SETTLED
    assert [getattr(owner, name) for owner, name, _ in variant.values] == before


def test_without_exchange_more_is_lost(small: tuple[Cluster, Settings], as_it_is: Outcome) -> None:
    """A variant is in force: rounding alone copies more, or leaves brokers outside."""
    cluster, settings = small
    alone = next(variant for variant in VARIANTS if variant.name == "rounding alone, no exchange")
    rounded = measure(cluster, alone, settings)
    assert rounded.violation > SETTLED or rounded.moved_bytes > as_it_is.moved_bytes


def test_a_cell_has_gap_moves_seconds_and_what_stays_outside(as_it_is: Outcome) -> None:
    """The gap is to the bound that is handed in; a page has a row for each variant."""
    found = replace(as_it_is, moved_bytes=102, moves=7, cpu_seconds=1.25, violation=0.0)
    assert cell(found, 100) == "2.000 % / 7 / 1.2"
    assert cell(replace(found, violation=0.5), 100).endswith(", outside")
    page = document(["M-drift-1"], {"as it is": ["2.000 % / 7 / 1.2"]})
    assert page.endswith("|  | M-drift-1 |\n| --- | ---: |\n| as it is | 2.000 % / 7 / 1.2 |\n")
