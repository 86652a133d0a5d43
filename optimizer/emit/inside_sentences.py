"""Sentences about replicas that move to other log directories of their brokers."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from optimizer.emit.cluster_plan import ClusterPlan, wave_folder
from optimizer.units import agree, clause, human_bytes, human_count, human_percent, human_rate, plural


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
