"""What the algorithm asks of whatever holds the partitions of a fleet: Spark, or this process."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from optimizer.domain import Brokers, Floats, Ints, Partitions
from optimizer.settings import Settings
from optimizer.solve.bounds.class_prices import Classes
from optimizer.solve.bounds.terms import Terms
from optimizer.solve.findings.order_findings import LeftForDisk
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rounds.progress import Copies
from optimizer.solve.rounds.solved_cluster import Clusters
from optimizer.solve.rules.bands import Demand
from optimizer.solve.shard.shard_status import ShardStatus


@dataclass(frozen=True)
class Totals:
    """What a cluster's partitions ask for together, and whether a list is to change its length."""

    demand: Demand
    is_resized: bool


# Told of a cluster whose function failed in ``each_cluster``: its id, and why.
LEFT_OUT = "cluster %s: one of its bounds is left out, the others stand: %s"
# From a cluster's id, its partitions and their replicas after the plan, (P, W).
OfCluster = Callable[[str, Partitions, Ints], Sequence[float]]


class Placement(Protocol):
    """Where the replicas of a fleet are now, beside where they were. Never changed: what moves replicas returns
    another one."""

    @property
    def brokers(self) -> Mapping[str, Brokers]:
        """Of each cluster."""

    def totals(self) -> Mapping[str, Totals]:
        """Of each cluster, before the plan."""

    def loads(self) -> Mapping[str, Floats]:
        """Of each broker now, (B, D), absolute."""

    def copies(self, cluster_ids: Collection[str]) -> Mapping[str, Copies]:
        """What brings these clusters from before to now."""

    def started(self, clusters: Clusters) -> Self:
        """Lists have the length asked for, and are inside their pins."""

    def after_round(self, tasks: Mapping[str, ClusterRound]) -> tuple[Self, Sequence[ShardStatus]]:
        """After all shards of a round; statuses by number of the shard."""

    def given_back(self, broker_ids: Mapping[str, Sequence[int]]) -> Self:
        """Partitions whose lists name one of these brokers have their old lists."""

    def cut(self, clusters: Clusters, settings: Settings) -> Self:
        """Partitions that the limits of these clusters leave for a later run have their old lists."""

    def without(self, left: Mapping[str, LeftForDisk]) -> Self:
        """These partitions have their old lists, or their second choices."""

    def classes(self, clusters: Clusters) -> Mapping[str, Classes]:
        """Replicas of each broker by class of partitions, in mean broker loads, before the plan."""

    def terms(self, clusters: Clusters, prices: Mapping[str, Sequence[Floats]]) -> Mapping[str, Terms]:
        """Of the clusters that have prices: bytes per absolute unit of load, (B, D) each."""

    def each_cluster(self, cluster_ids: Collection[str], found_by: OfCluster) -> Mapping[str, Sequence[float]]:
        """What a function finds of whole clusters; one that fails is left out, with a warning."""

    def finished(self, clusters: Clusters, settings: Settings) -> tuple[Mapping[str, Any], Mapping[str, LeftForDisk]]:
        """Tables of leaders, moves and findings, of this placement's kind; and partitions that no order of copies has
        room for, of whose clusters there is nothing else."""


P = TypeVar("P", bound=Placement)
