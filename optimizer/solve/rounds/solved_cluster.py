"""What every step of solve knows about one cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from optimizer.cluster_policy import ClusterPolicy
from optimizer.domain import Bands, Brokers, Floats
from optimizer.kafka.partition_state import CompletionRule
from optimizer.kafka.versions import completion_rule
from optimizer.solve.findings.finding import Finding
from optimizer.solve.findings.limit_findings import OverLimits
from optimizer.solve.findings.order_findings import LeftForDisk
from optimizer.solve.rounds.progress import Progress
from optimizer.solve.rules.bands import Demand


@dataclass(frozen=True)
class SolvedCluster:
    """One cluster while it is solved, and after: everything except its partitions.

    Parameters
    ----------
    demand : Demand
    bands : Bands
    scale : (D,) float64
        Mean broker load, absolute.
    loads_before, loads : (B, D) float64
        Absolute loads before the plan, and now.
    is_resized : bool
        A replica list changes its length.
    waits : bool
        The cluster waits to start: its bands are those of ``start_policy``.
    has_stuck : bool
        Replicas of a list that may change are out of sync.
    progress : Progress
    failures : tuple of Finding
        Shards that failed or ran out of time.
    kafka_version : str
        Empty if it is unknown.
    cluster_policy : ClusterPolicy
        What the settings request for this cluster.
    over_limits : OverLimits, optional
        The whole plan, if it exceeds a limit and was reduced.
    left_for_disk : LeftForDisk, optional
        Partitions that stay because no order of the copies has disk space for them.
    """

    brokers: Brokers
    demand: Demand
    bands: Bands
    scale: Floats
    loads_before: Floats
    loads: Floats
    is_resized: bool
    progress: Progress
    waits: bool = False
    has_stuck: bool = False
    kafka_version: str = ""
    failures: tuple[Finding, ...] = ()
    cluster_policy: ClusterPolicy = field(default_factory=ClusterPolicy)
    over_limits: OverLimits | None = None
    left_for_disk: LeftForDisk | None = None

    @property
    def completion(self) -> CompletionRule:
        """When Kafka ends a reassignment."""
        return completion_rule(self.kafka_version)

    @property
    def may_have_impossible_lists(self) -> bool:
        """Whether Kafka may refuse a change (a broker is down), or may not end one (a replica is out of sync)."""
        needs_all = self.completion is CompletionRule.TARGET or self.is_resized
        return not self.brokers.is_live.all() or (self.has_stuck and needs_all)


Clusters = Mapping[str, SolvedCluster]
