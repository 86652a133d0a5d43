"""The resources that brokers are balanced by when replicas are placed.

One row for each resource, in the order of the columns of every (…, D) array of loads, weights and bands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optimizer.settings import Policy


@dataclass(frozen=True)
class Resource:
    """One resource.

    Parameters
    ----------
    name : str
        In findings and tables; a remedy names the knob of its band as ``NAME_band``.
    column : str, optional
        Load of a replica: a field of ``Partitions`` and a column of ``instance``. None: each replica counts as 1.
    capacity : str
        Field of ``Brokers``. A broker's share follows it if it is known for all brokers, else the disk capacity.
    band : callable
        Half the width of its band, as a share of the mean.
    """

    name: str
    column: str | None
    capacity: str
    band: Callable[[Policy], float]


PLACEMENT_RESOURCES: Sequence[Resource] = (
    Resource("replicas", None, "disk_capacity_bytes", lambda policy: policy.replicas_band),
    Resource("disk", "size_bytes", "disk_capacity_bytes", lambda policy: policy.disk_band),
    Resource("in", "in_bytes_per_s", "in_capacity_bytes_per_s", lambda policy: policy.in_band),
)
# Two columns mean more than balance: replicas are whole numbers; the disk is the cost of a copy, and must fit it.
REPLICAS, DISK = 0, 1
