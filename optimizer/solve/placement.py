"""The interface to the partitions of a fleet, which are held by Spark or in this process."""

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
    """The demand of a cluster's partitions; whether a replica list changes its length, and whether replicas of a list
    that may change are out of sync."""

    demand: Demand
    is_resized: bool
    has_stuck: bool


# Warning if the function of a cluster fails in ``for_each_cluster``: cluster id, error.
BOUND_LEFT_OUT = "cluster %s: a lower bound could not be computed and is left out; the other bounds are valid: %s"
# Arguments: cluster id, partitions, and their replicas after the plan, (P, W).
ClusterFunction = Callable[[str, Partitions, Ints], Sequence[float]]


class FleetPlacement(Protocol):
    """All replicas of a fleet, as they are now and as they were before the plan.

    Immutable: an operation that moves replicas returns a new placement.
    """

    @property
    def brokers(self) -> Mapping[str, Brokers]:
        """Brokers of each cluster."""

    def totals(self) -> Mapping[str, Totals]:
        """Totals of each cluster before the plan."""

    def loads(self) -> Mapping[str, Floats]:
        """Current load of each broker, (B, D), absolute."""

    def copies(self, cluster_ids: Collection[str]) -> Mapping[str, Copies]:
        """Copies that bring these clusters from the lists before the plan to the current lists."""

    def with_sized_and_pinned_lists(self, clusters: Clusters) -> Self:
        """Give every list the requested length, and bring it inside its pins."""

    def after_round(self, tasks: Mapping[str, ClusterRound]) -> tuple[Self, Sequence[ShardStatus]]:
        """Solve all shards of a round; the statuses are in the order of shard numbers."""

    def restore_impossible_lists(self, clusters: Clusters) -> Self:
        """Give partitions of these clusters their old lists if Kafka would refuse to change them, because the new list
        names a broker that is not live, or would not end their reassignment."""

    def reduce_to_limits(self, clusters: Clusters, settings: Settings) -> Self:
        """Give partitions that the limits of these clusters leave for a later run their old lists."""

    def restore_left_for_disk(self, left: Mapping[str, LeftForDisk]) -> Self:
        """Give these partitions their old lists, or their second choices."""

    def partition_classes(self, clusters: Clusters) -> Mapping[str, Classes]:
        """Replicas of each broker by class of partitions, in mean broker loads, before the plan."""

    def bound_terms(self, clusters: Clusters, prices: Mapping[str, Sequence[Floats]]) -> Mapping[str, Terms]:
        """Terms of the bounds, for each cluster that has prices: bytes per absolute unit of load, (B, D) each."""

    def for_each_cluster(
        self, cluster_ids: Collection[str], function: ClusterFunction
    ) -> Mapping[str, Sequence[float]]:
        """Apply a function to whole clusters; if the function fails, the cluster is left out, with a warning."""

    def result_tables(
        self, clusters: Clusters, settings: Settings
    ) -> tuple[Mapping[str, Any], Mapping[str, LeftForDisk]]:
        """Tables of leaders, moves and findings, and the partitions that no order of the copies has disk space for.

        Clusters with such partitions are in none of the tables.
        """


P = TypeVar("P", bound=FleetPlacement)
