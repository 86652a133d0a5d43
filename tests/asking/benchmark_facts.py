"""Facts about an instance of the benchmarks, as a run of ``benchmarks/run.py`` has them."""

from collections.abc import Mapping
from typing import Any

from asking.run_facts import RunFacts
from benchmarks.planned import KB, MB
from tests.asking.small_run import broker, make_facts, partition


def facts_of(instance: Mapping[str, Any], *, policy: Mapping[str, Any] | None = None, **run: Any) -> RunFacts:
    """The facts of a run; sizes and rates are rounded to bytes, as the parsers do.

    Parameters
    ----------
    policy : mapping, optional
        Settings of ``[policy]``.
    run : other arguments of ``make_facts``
    """
    holding = {b for each in instance["partitions"] for b in each["replicas"]}
    brokers = [
        broker(
            each["id"],
            each["rack"],
            holds=each["id"] in holding,
            disk_capacity_bytes=round(each["disk_capacity_mb"] * MB),
            in_capacity_bytes_per_s=round(each["nw_in_capacity"] * KB) if "nw_in_capacity" in each else None,
            out_capacity_bytes_per_s=round(each["nw_out_capacity"] * KB) if "nw_out_capacity" in each else None,
        )
        for each in instance["brokers"]
    ]
    partitions = [
        partition(
            each["topic"],
            each["partition"],
            each["replicas"],
            leader=each["leader"],
            size_bytes=round(each["size_mb"] * MB),
            in_bytes_per_s=round(each["nw_in_kbps"] * KB),
            out_bytes_per_s=round(each["nw_out_kbps"] * KB),
        )
        for each in instance["partitions"]
    ]
    return make_facts(brokers, partitions, **run, policy=policy or {})
