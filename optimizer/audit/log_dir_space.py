"""Space in the directories of brokers after a plan, however its replicas are distributed over them."""

from optimizer.audit.claims import AuditPartition
from optimizer.audit.instance import Instance


class LogDirSpace:
    """The free bytes of open directories, and the bytes that arrive and may be in any of them.

    Only brokers with several directories count, at least one of them open, and all open ones with a capacity. The
    result does not depend on the waves. So the planner finds the same excuses before the waves are known.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._free: dict[int, dict[str, int]] = {}
        for broker, log_dirs in instance.log_dirs.items():
            is_open = [log_dir for log_dir in log_dirs.values() if log_dir.is_open]
            limits = {d.path: limit for d in is_open if (limit := instance.log_dir_limit(d)) is not None}
            if is_open and len(limits) == len(is_open):
                self._free[broker] = {d.path: limits[d.path] - d.used_bytes for d in is_open}
        self._total_free = {broker: sum(free.values()) for broker, free in self._free.items()}
        self._arriving = dict.fromkeys(self._free, 0)

    def takes(self, broker: int, size_bytes: int) -> bool:
        """Whether one directory of a broker has space for a replica, however the arriving replicas are distributed.

        Directories have no space if each one that would have it can be filled until it has one byte too little.
        """
        if broker not in self._free:
            return True
        free, arriving = self._free[broker], self._arriving[broker]
        if arriving < self._total_free[broker] - len(free) * (size_bytes - 1):  # a quick answer for nearly all brokers
            return True
        return arriving < sum(n - size_bytes + 1 for n in free.values() if n >= size_bytes)

    def add(self, partition: AuditPartition, broker: int) -> None:
        """Add a replica: to its old directory if it comes back, else to any."""
        self._change(partition, broker, partition.size_bytes)

    def remove(self, partition: AuditPartition, broker: int) -> None:
        """Remove a replica: from its old directory if it was there before the plan."""
        self._change(partition, broker, -partition.size_bytes)

    def _change(self, partition: AuditPartition, broker: int, added_bytes: int) -> None:
        if broker not in self._free:
            return
        if broker not in partition.replicas:
            self._arriving[broker] += added_bytes
            return
        path = self._instance.log_dir_before(partition, broker)
        if path in self._free[broker]:
            self._free[broker][path] -= added_bytes
            self._total_free[broker] -= added_bytes
