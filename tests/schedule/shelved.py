"""Gives every broker of a cluster several log directories, as Kafka would have filled them."""

import random
from collections.abc import Sequence

import pandas as pd


def with_log_dirs(
    partitions: pd.DataFrame, brokers: pd.DataFrame, shares: Sequence[float], seed: int = 1
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of ``instance`` and ``instance_brokers`` with directories ``/d0``, ``/d1``, ... of these shares of a broker.

    Topics were created in random order, each replica where the fewest logs were.
    """
    order = list(range(len(partitions)))
    random.Random(seed).shuffle(order)
    logs = {broker: [0] * len(shares) for broker in brokers["broker_id"]}
    used = {broker: [0] * len(shares) for broker in brokers["broker_id"]}
    lists, sizes = partitions["replicas"].to_list(), partitions["size_bytes"].to_list()
    dirs: list[list[str]] = [[] for _ in order]
    for row in order:
        for broker in lists[row]:
            d = logs[broker].index(min(logs[broker]))
            logs[broker][d] += 1
            used[broker][d] += int(sizes[row])
            dirs[row].append(f"/d{d}")
    structs = [
        [
            {
                "path": f"/d{d}",
                "capacity_bytes": None if pd.isna(capacity) else int(capacity * share / sum(shares)),
                "used_bytes": used[broker][d],
                "logs": logs[broker][d],
                "is_open": True,
            }
            for d, share in enumerate(shares)
        ]
        for broker, capacity in zip(brokers["broker_id"], brokers["disk_capacity_bytes"], strict=True)
    ]
    columns = (pd.Series(dirs, partitions.index, dtype=object), pd.Series(structs, brokers.index, dtype=object))
    return partitions.assign(log_dirs=columns[0]), brokers.assign(log_dirs=columns[1])
