"""Sentences about replicas that move to other log directories of their brokers."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from optimizer.emit.cluster_plan import ClusterPlan, wave_folder
from optimizer.units import agree, clause, human_bytes, human_count, human_percent, human_rate, plural

LEAST_SHOWN = 0.005  # percent: a smaller gap would be shown as 0.00 %


def percent_over(gap_percent: float) -> str:
    """Up to how far a plan is over its bound: never less than what is shown as more than nothing."""
    return human_percent(max(gap_percent, 2 * LEAST_SHOWN))


class Copied(NamedTuple):
    """Bytes that a plan, a run or some waves copy between brokers, and to other log directories inside brokers."""

    between_bytes: float
    inside_bytes: float

    def words(self) -> str:
        """Both for people; one of them if the other is 0."""
        if not self.inside_bytes:
            return human_bytes(self.between_bytes)
        inside = f"{human_bytes(self.inside_bytes)} inside brokers"
        return f"{human_bytes(self.between_bytes)} and {inside}" if self.between_bytes else inside


def total(sizes: Iterable[Copied]) -> Copied:
    """The sum of both."""
    return Copied(*map(sum, zip((0, 0), *sizes, strict=True)))


def waves_inside(plan: ClusterPlan) -> str:
    """The names of the waves inside brokers: they follow each other."""
    names = [wave_folder(row.wave, len(plan.waves)) for row in plan.waves_inside]
    return " to ".join(dict.fromkeys((names[0], names[-1]))) if names else ""


def moves_in_words(plan: ClusterPlan) -> str:
    """How many replicas and bytes move inside brokers, and in which waves: a sentence without its full stop."""
    count = len(plan.dir_moves)
    if not count:
        return ""
    moved = clause(count, "replica", "moves to another log directory of its", "move to other log directories of their")
    brokers = "broker" if count == 1 else "brokers"
    return f"{moved} {brokers} ({human_bytes(plan.inside_bytes)}), in {waves_inside(plan)}"


def rate_inside(plan: ClusterPlan) -> str:
    """The rate of the copies inside brokers."""
    rows = plan.waves_inside
    if not rows:
        return ""
    rate = max(row.copy_bytes_per_s or row.throttle_bytes_per_s for row in rows)
    waves = f"{agree(len(rows), 'Wave', 'Waves')} inside brokers: {waves_inside(plan)}"
    subject = waves if plan.waves_between else "All copies are inside brokers"
    return f"{subject}, at up to {human_rate(rate)} per broker."


def proof_inside(plan: ClusterPlan) -> str:
    """How close the copies inside brokers are to the proven minimum, in two sentences."""
    if not plan.dir_moves:
        return ""
    bound, gap = plan.figure("dir_bound_bytes"), _gap_percent(plan)
    if bound is None:
        return "No lower bound was computed for copies inside brokers."
    minimum = f"For {_reached(plan)}, at least {human_bytes(bound)} must move inside brokers (proven)."
    if plan.inside_bytes <= bound:
        return f"{minimum} This plan moves no more."
    over = "" if gap is None else f", at most {percent_over(gap)} over it"
    return f"{minimum} This plan moves {human_bytes(plan.inside_bytes)}{over}."


def proof_in_short(plan: ClusterPlan) -> str:
    """The same in one sentence, for the verdict."""
    if not plan.dir_moves:
        return ""
    bound, gap = plan.figure("dir_bound_bytes"), _gap_percent(plan)
    if bound is not None and plan.inside_bytes <= bound:
        return f"No plan for {_reached(plan)} moves less inside brokers (proven)."
    if gap is None:
        return "No lower bound was computed for copies inside brokers."
    over = percent_over(gap)
    return f"Inside brokers: at most {over} over the least possible for {_reached(plan)} (proven)."


def _reached(plan: ClusterPlan) -> str:
    """For what the bound holds."""
    if plan.number("dirs_outside_bands"):
        return "so few bytes outside the bands of log directories"
    return "these bands of log directories"


def _gap_percent(plan: ClusterPlan) -> float | None:
    """Bytes above the bound, in percent of it; None without a bound, or if it is 0."""
    bound = plan.figure("dir_bound_bytes")
    return 100 * (plan.inside_bytes / bound - 1) if bound else None


def directories_in_words(plan: ClusterPlan) -> str:
    """Directories outside their bands and the fullest one, before and after; empty unless they are balanced."""
    if plan.figure("dirs_outside_bands") is None:
        return ""
    return " ".join(_results(plan))


def _results(plan: ClusterPlan) -> Iterator[str]:
    before, after = (human_count(plan.number("dirs_outside_bands", side)) for side in ("before", "after"))
    yield f"Log directories outside their bands: {before} before, {after} after."
    fullest, then = (plan.figure("fullest_directory_percent", side) for side in ("before", "after"))
    if fullest is not None and then is not None:
        yield f"Fullest log directory: {human_percent(fullest)} of its capacity before, {human_percent(then)} after."


def whole_plan(plan: ClusterPlan) -> str:
    """What ``reassignment.json`` of the plan has: no replica that moves inside its broker."""
    return "all waves between brokers" if plan.dir_moves else "the whole plan"


def undo_inside(plan: ClusterPlan) -> str:
    """The documents that undo the waves inside brokers, and what they copy."""
    if not plan.dir_moves:
        return ""
    waves = plural(len(plan.waves_inside), "wave")
    return f"rollback-dir-moves.json of {waves}; copies up to {human_bytes(plan.inside_bytes)} inside brokers back"
