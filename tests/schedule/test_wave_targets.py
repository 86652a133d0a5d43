"""How near the waves of whole plans come to their bound."""

import numpy as np
import pytest

from optimizer.domain import Ints
from optimizer.schedule.balanced_waves import LONGEST, balanced_waves
from optimizer.schedule.wave_bound import least_total_bytes
from optimizer.schedule.waves import UNPLACED, assign_waves
from optimizer.settings import Schedule
from tests.schedule.planned_changes import PlannedChanges, planned_changes

SCENARIOS = ("expand", "decom", "legacy", "drift")
MARKS = {"S": (), "M": (pytest.mark.all_only,)}  # plans of M take too long for the daily tier
SIZES = [pytest.param(size, marks=marks) for size, marks in MARKS.items()]
# Size, scenario, waves (0: automatic), most that the lengths sum to, in shares of the plan's busiest end.
TARGETS = [
    (size, scenario, waves, ratio)
    for size, scenarios in (("S", ("expand", "decom")), ("M", SCENARIOS))
    for scenario in scenarios
    for waves, ratio in ((20, 1.02), (50, 1.04))
]
TARGETS += [(size, scenario, 0, 1.03) for size in "SM" for scenario in SCENARIOS]


@pytest.fixture(scope="module")
def plans_of_s() -> None:
    """Make the plans of S before the tests, so that their time is not that of the first test."""
    for scenario in SCENARIOS:
        planned_changes("S", scenario)


def waves_of(plan: PlannedChanges, waves: int, limit: Ints) -> Ints:
    """The waves of the plan stage."""
    return balanced_waves(plan.changes, disk_used=plan.disk_used, disk_limit=limit, schedule=Schedule(waves=waves))


@pytest.mark.usefixtures("plans_of_s")
@pytest.mark.parametrize(
    ("size", "scenario", "waves", "ratio"), [pytest.param(*target, marks=MARKS[target[0]]) for target in TARGETS]
)
def test_waves_of_whole_plans_are_near_their_bound(size: str, scenario: str, waves: int, ratio: float) -> None:
    """The waves together take little longer than the busiest end of the plan, and none is much longer than others."""
    plan = planned_changes(size, scenario)
    wave_of = waves_of(plan, waves, plan.disk_limit)
    lengths, busiest = plan.lengths(wave_of), plan.lengths(np.ones_like(wave_of)).max()
    assert (wave_of != UNPLACED).all()
    assert len(lengths) == waves or not waves
    assert lengths.sum() <= ratio * busiest
    assert lengths.max() <= LONGEST * max(busiest / len(lengths), plan.changes.endpoint_bytes.max())


@pytest.mark.usefixtures("plans_of_s")
@pytest.mark.parametrize("waves", [20, 50])
def test_plans_of_few_large_changes_are_near_the_bound_with_waves(waves: int) -> None:
    """A plan with fewer changes at its busiest end than waves is compared with the bound for so many waves."""
    plan = planned_changes("S", "drift")
    lengths = plan.lengths(waves_of(plan, waves, plan.disk_limit))
    assert len(lengths) == min(waves, len(plan.changes))
    assert lengths.sum() <= 1.10 * least_total_bytes(plan.changes, len(plan.disk_used), len(lengths))


@pytest.mark.usefixtures("plans_of_s")
@pytest.mark.parametrize("waves", [0, 20])
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("size", SIZES)
def test_nearly_full_disks_leave_no_more_changes(size: str, scenario: str, waves: int) -> None:
    """If disks have 1 % more than the fullest needs, each change that found a wave has one, in no longer waves."""
    plan, schedule = planned_changes(size, scenario), Schedule(waves=waves)
    wave_of = waves_of(plan, waves, plan.tight_limit)
    today = assign_waves(plan.changes, disk_used=plan.disk_used, disk_limit=plan.tight_limit, schedule=schedule)
    assert (wave_of == UNPLACED).sum() <= (today == UNPLACED).sum()
    assert plan.lengths(wave_of).sum() <= plan.lengths(today).sum() or wave_of.max() > today.max()
