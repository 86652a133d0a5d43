"""Limits for figures of a whole cluster: unread input, contradicting sources, coverage, units."""

from dataclasses import dataclass

from optimizer.emit.quality_causes import SHARE
from optimizer.settings import Settings
from optimizer.stages.validate.rule import Standing

_MISFIT = 5.0  # largest factor between two sources that should agree
_HARDLY_USED = 0.001  # least used share of the capacities: below it one of the two has a wrong unit
# Remedies for unread input, by the figure that counts its rows.
_UNREAD = {
    "unreadable_files": (
        "give the files complete, or remove them from the folder, or name them in [quality] allow_unreadable_files"
    ),
    "tool_errors": "run the tool again: it failed before its output was complete",
    "wishes": "give the state of the cluster: kafka-topics.sh --describe and kafka-reassign-partitions.sh --list",
    "contradicting_answers": "keep only the newest answer of kafka-reassign-partitions.sh --list in the file",
}
_ALWAYS_ALLOWED = 2  # partitions that may differ in any cluster: topics are created or deleted between two tools
_CONTRADICTING = (
    "take all outputs at the same time, from one cluster, as a user that may describe every topic; [quality] "
    "max_contradicting_share is the share of partitions that may differ"
)


@dataclass(frozen=True)
class FigureLimit:
    """A limit for one figure of a whole cluster.

    Parameters
    ----------
    name : str
        Column of the figures, and name of the rule.
    table : str
        Table that the figure is about.
    stops : bool
        Whether a figure outside the limits refuses the run.
    least, most : float, optional
    remedy : str
    message : str
        Finding of a run that continues although the figure is outside its limits; empty if rows of rules report it.
    standing : Standing
        Standing of this finding.
    example : str
        Column of the figures with an example for the ``{}`` of ``message``; empty if there is none.
    """

    name: str
    table: str
    stops: bool
    remedy: str
    least: float | None = None
    most: float | None = None
    message: str = ""
    standing: Standing = Standing.LEFT_OUT
    example: str = ""

    @property
    def threshold(self) -> str:
        """The limits in words."""
        if self.least is not None and self.most is not None:
            return f"{self.least:g}" if self.least == self.most else f"{self.least:g} to {self.most:g}"
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


def few(partitions: int, settings: Settings) -> int:
    """Number of partitions about which sources may disagree: a share of all, and at least two."""
    return max(_ALWAYS_ALLOWED, int(settings.quality.max_contradicting_share * partitions))


def _cross_figures(settings: Settings, partitions: int) -> tuple[FigureLimit, ...]:
    """Limits for figures that compare sources."""
    most, least = few(partitions, settings), settings.metrics.min_coverage
    unit_remedy = (
        "sizes in metrics and log directories differ by this factor: give all sizes in bytes, or name the unit in the "
        "column (size_kb, size_mib, ...)"
    )
    required = settings.metrics.rates_required
    rates_least = least if required else 0
    return (
        FigureLimit("undescribed_partitions", "bronze_records", True, _CONTRADICTING, most=most),
        FigureLimit("undescribed_topics", "bronze_records", True, _CONTRADICTING, most=most),
        FigureLimit("misplaced_partitions", "bronze_records", True, _CONTRADICTING, most=most),
        FigureLimit("size_coverage_by_rates", "partition_load", True, "give sizes of the busy partitions", least=least),
        FigureLimit(
            "rate_coverage_by_bytes", "partition_load", required, "give rates of the large partitions", rates_least
        ),
        FigureLimit("size_unit_factor", "partition_load", True, unit_remedy, 1, 1),
        FigureLimit(
            "metric_over_log_size",
            "partition_load",
            False,
            "check that metrics and log directories are from the same time",
            least=1 / _MISFIT,
            most=_MISFIT,
            message="sizes in the metrics and in the log directories differ by more than a factor of five",
            standing=Standing.CONTRADICTS,
        ),
        FigureLimit(
            "hours_after_metrics",
            "bronze_metrics",
            False,
            "give metrics of the time of the other sources; set captured_at if those are copies: a copy has a new time",
            least=-settings.metrics.window_hours,
            most=settings.metrics.window_hours,
            message="the metrics are {} than the other sources, and the plan still uses them",
            standing=Standing.CONTRADICTS,
            example="metrics_apart",
        ),
        FigureLimit(
            "disk_use",
            "brokers",
            False,
            "check that sizes and capacities have the same unit; otherwise times and free space in the plan are wrong",
            least=_HARDLY_USED,
            message="all replicas together fill less than a thousandth of the given disk capacities ({})",
            standing=Standing.CONTRADICTS,
            example="disk_use_example",
        ),
    )


def figures(settings: Settings, partitions: int) -> tuple[FigureLimit, ...]:
    """All figures of a cluster with their limits, by its number of partitions."""
    return (
        *(FigureLimit(name, "quarantine", True, remedy, most=0) for name, remedy in _UNREAD.items()),
        *_cross_figures(settings, partitions),
        FigureLimit("partitions", "replicas", True, "give the output of kafka-topics.sh --describe", least=1),
        FigureLimit(
            "registered_brokers",
            "brokers",
            False,
            "give the output of kafka-broker-api-versions.sh: without it every broker counts as alive, without a rack",
            least=1,
            message="no list of brokers was given: every broker counts as alive, without a rack",
        ),
        FigureLimit(
            SHARE,
            "quarantine",
            True,
            "correct the rows of severity error in the table quarantine, or raise [quality] max_quarantined_share",
            most=settings.quality.max_quarantined_share,
        ),
    )
