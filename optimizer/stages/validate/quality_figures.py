"""Limits for figures of a whole cluster: what was not read, sources that disagree, coverage, units."""

from dataclasses import dataclass

from optimizer.settings import Settings
from optimizer.stages.validate.rule import Standing
from sources.record import NOT_STATE, TOOL_ERROR, TWO_ANSWERS, UNREADABLE_FILE

_MISFIT = 5.0  # times: between two sources that should agree
_HARDLY_USED = 0.001  # of a capacity: less is another unit
# Figures that count what could not be read, with what to do; rules of the quarantine that they count: ``UNREAD_RULES``.
UNREAD_RULES = {
    "unreadable_files": UNREADABLE_FILE,
    "tool_errors": TOOL_ERROR,
    "wishes": NOT_STATE,
    "contradicting_answers": TWO_ANSWERS,
}
_UNREAD = {
    "unreadable_files": "give them whole, or leave them out, or name them in [quality] allow_unreadable_files",
    "tool_errors": "run the tool again: it stopped before its end",
    "wishes": "give the cluster's state: kafka-topics.sh --describe, and kafka-reassign-partitions.sh --list",
    "contradicting_answers": "keep only the newest answer of kafka-reassign-partitions.sh --list in the file",
}
# Figures that count partitions or topics of rows that break a rule which alone stops nothing.
FIGURES_OF_RULES = {
    "log_is_described": "undescribed_partitions",
    "configured_topic_described": "undescribed_topics",
    "log_is_placed": "misplaced_partitions",
    "replica_has_log": "misplaced_partitions",
}
_SOME_ARE_FINE = 2  # Topics come and go between two tools: so many may differ on a cluster of any size.
_CONTRADICTING = (
    "take all outputs at one time, of one cluster, as a user that may describe every topic; [quality] "
    "max_contradicting_share says how many partitions may differ"
)


@dataclass(frozen=True)
class FigureLimit:
    """A limit for one figure of a whole cluster.

    Parameters
    ----------
    name : str
        Column of the figures, and name of the rule.
    table : str
        Table that it is about.
    stops : bool
        Whether a figure outside the limits refuses the run.
    least, most : float, optional
    remedy : str
    told : str
        What a run that goes on tells where the figure is outside its limits; empty where rows tell it.
    standing : Standing
        Of what it tells.
    example : str
        Column of the figures with an example, which is added to ``told``; empty where there is none.
    """

    name: str
    table: str
    stops: bool
    remedy: str
    least: float | None = None
    most: float | None = None
    told: str = ""
    standing: Standing = Standing.LEFT_OUT
    example: str = ""

    @property
    def threshold(self) -> str:
        """The limits in words."""
        if self.least is not None and self.most is not None:
            return f"{self.least:g}" if self.least == self.most else f"{self.least:g} to {self.most:g}"
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


def few(partitions: int, settings: Settings) -> int:
    """How many partitions sources may disagree about: a share of them, and two on any cluster."""
    return max(_SOME_ARE_FINE, int(settings.quality.max_contradicting_share * partitions))


def _cross_figures(settings: Settings, partitions: int) -> tuple[FigureLimit, ...]:
    """What is asked of the sources together."""
    most, least = few(partitions, settings), settings.metrics.min_coverage
    unit = "give all sizes in bytes, or name the unit in the column: size_kb, size_mib, ..."
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
        FigureLimit("size_unit_factor", "partition_load", True, f"sizes of metrics and logs differ so: {unit}", 1, 1),
        FigureLimit(
            "metric_over_log_size",
            "partition_load",
            False,
            "look whether metrics and log directories are of the same time",
            least=1 / _MISFIT,
            most=_MISFIT,
            told="sizes in the metrics and in the log directories differ by more than five times",
            standing=Standing.CONTRADICTS,
        ),
        FigureLimit(
            "hours_after_metrics",
            "bronze_metrics",
            False,
            "take all outputs together; give captured_at where files were copied: a copy has a new time",
            least=-settings.metrics.window_hours,
            most=settings.metrics.window_hours,
            told="the newest sample of the metrics and the other sources are further apart than [metrics] window_hours",
            standing=Standing.CONTRADICTS,
        ),
        FigureLimit(
            "disk_use",
            "brokers",
            False,
            "look whether sizes and capacities count in the same unit; times and room are wrong if they don't",
            least=_HARDLY_USED,
            told="all replicas fill less than a thousandth of the disks, by the capacities that were given",
            standing=Standing.CONTRADICTS,
            example="disk_use_example",
        ),
    )


def figures(settings: Settings, partitions: int) -> tuple[FigureLimit, ...]:
    """What is asked of a cluster as a whole, by its number of partitions."""
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
            told="no list of brokers was given: every broker counts as alive, without a rack",
        ),
        FigureLimit(
            "quarantined_share",
            "quarantine",
            True,
            "mend the rows of severity error in the table quarantine, or raise [quality] max_quarantined_share",
            most=settings.quality.max_quarantined_share,
        ),
    )
