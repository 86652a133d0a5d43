"""Texts of findings about a whole cluster: unknown values, emptied racks, brokers that are down, failed shards."""

from optimizer.domain import FindingCode
from optimizer.solve.findings.finding import Finding
from optimizer.units import agree, clause, plural
from optimizer.wording.words import Words, ids

_CLUSTER = "cluster"
_WAYS = {"in": "inbound", "out": "outbound"}


def rack_emptied(finding: Finding) -> Words:
    """Facts ``rack`` and ``brokers``; amount: remaining racks."""
    brokers = finding.facts["brokers"]
    return Words(
        f"rack {finding.facts['rack']}",
        f"the plan empties the whole rack ({agree(len(brokers), 'broker', 'brokers')} {ids(brokers)}): replicas are "
        f"spread over {plural(int(finding.amount or 0), 'rack')} only",
        "keep or add a broker in this rack, unless you no longer need the rack",
    )


def dead_broker(finding: Finding) -> Words:
    """Amount: replicas that stay on it."""
    return Words(
        f"broker {finding.broker_id}",
        f"broker {finding.broker_id} is dead: replica lists name it, but it serves nothing; {_stay(finding)}",
        "if it is to come back, start it and plan again",
    )


def fenced_broker(finding: Finding) -> Words:
    """Amount: replicas that stay on it."""
    broker = finding.broker_id
    return Words(
        f"broker {broker}",
        f"broker {broker} is fenced: it is registered, but serves nothing; {_stay(finding)}",
        f"start it; if it never comes back, drain it (--drain {broker}), execute that plan, and then unregister it: "
        f"kafka-cluster.sh unregister --id {broker}",
    )


def _stay(finding: Finding) -> str:
    held = int(finding.amount or 0)
    return f"{clause(held, 'replica', 'stays', 'stay')} on it" if held else "the plan moves its replicas to others"


def no_racks(finding: Finding) -> Words:
    """No facts."""
    return Words(
        _CLUSTER, "no broker has a rack: replicas are spread over brokers only", "set broker.rack on every broker"
    )


def no_disk_capacity(finding: Finding) -> Words:
    """Amount: brokers with a known capacity; limit: brokers that accept replicas."""
    count = int(finding.limit or 0)
    unknown = count - int(finding.amount or 0)
    equal = "" if unknown == count else ", and all brokers count as equally large"
    return Words(
        _CLUSTER,
        f"the disk capacity of {unknown} of {plural(count, 'broker')} is unknown: "
        f"{agree(unknown, 'it has', 'they have')} no disk limit{equal}",
        "supply a capacity file: see docs/formats.md",
    )


def no_network_capacity(finding: Finding) -> Words:
    """Resource in or out; amount: brokers with a known capacity; limit: brokers that accept replicas."""
    resource = finding.resource or ""
    return Words(
        f"{_CLUSTER} {resource}",
        f"the {_WAYS[resource]} network capacity is known for only {finding.amount} of {finding.limit} brokers, so "
        "shares follow disk size",
        "supply it for every broker: see docs/formats.md",
    )


def no_rates(finding: Finding) -> Words:
    """No facts."""
    return Words(
        _CLUSTER,
        "no partition has a rate: bytes in and out are not balanced, and times do not include live traffic",
        "supply rates by partition: see docs/formats-metrics.md",
    )


def shard_failed(finding: Finding) -> Words:
    """Facts ``shard``, ``round``, ``brokers``, ``is_last_round`` and ``message``."""
    remedy = "if its process was killed, lower solver.shard_brokers; otherwise report it with the run's tables"
    return _shard(finding, "failed", remedy)


def shard_out_of_time(finding: Finding) -> Words:
    """The facts of ``shard_failed``."""
    return _shard(finding, "ran out of time", "raise solver.lp_deterministic_time, or lower solver.shard_brokers")


def _shard(finding: Finding, problem: str, remedy: str) -> Words:
    facts = finding.facts
    consequence = "its replicas stay where they are" if facts["is_last_round"] else "the next round takes its replicas"
    return Words(
        f"shard {facts['shard']} of round {facts['round']}",
        f"a shard of {plural(facts['brokers'], 'broker')} {problem}; {consequence}: {facts['message']}",
        remedy,
    )


BY_CODE = {
    FindingCode.RACK_EMPTIED: rack_emptied,
    FindingCode.DEAD_BROKER: dead_broker,
    FindingCode.FENCED_BROKER: fenced_broker,
    FindingCode.NO_RACKS: no_racks,
    FindingCode.NO_DISK_CAPACITY: no_disk_capacity,
    FindingCode.NO_NETWORK_CAPACITY: no_network_capacity,
    FindingCode.NO_RATES: no_rates,
    FindingCode.SHARD_FAILED: shard_failed,
    FindingCode.SHARD_OUT_OF_TIME: shard_out_of_time,
}
