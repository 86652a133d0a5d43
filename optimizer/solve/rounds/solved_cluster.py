"""What all steps of solve know of one cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from optimizer.cluster_policy import ClusterPolicy
from optimizer.domain import Bands, Brokers, Floats
from optimizer.solve.findings.finding import Finding
from optimizer.solve.findings.limit_findings import Cut
from optimizer.solve.findings.order_findings import LeftForDisk
from optimizer.solve.rounds.progress import Progress
from optimizer.solve.rules.bands import Demand


@dataclass(frozen=True)
class SolvedCluster:
    """One cluster while it is solved and after: everything but its partitions.

    Parameters
    ----------
    demand : Demand
    bands : Bands
    scale : (D,) float64
        Mean broker load, absolute.
    loads_before, loads : (B, D) float64
        Absolute loads before the plan and now.
    is_resized : bool
        A list changes its length.
    progress : Progress
        Of the rounds.
    failures : tuple of Finding
        Shards that failed, or were out of time.
    policy : ClusterPolicy
        What is asked of it.
    cut : Cut, optional
        The plan that a limit has cut.
    left : LeftForDisk, optional
        Partitions that are left because no order of copies has room for them.
    """

    brokers: Brokers
    demand: Demand
    bands: Bands
    scale: Floats
    loads_before: Floats
    loads: Floats
    is_resized: bool
    progress: Progress
    failures: tuple[Finding, ...] = ()
    policy: ClusterPolicy = field(default_factory=ClusterPolicy)
    cut: Cut | None = None
    left: LeftForDisk | None = None


Clusters = Mapping[str, SolvedCluster]
