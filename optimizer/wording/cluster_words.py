"""Texts of findings about a whole cluster: unknown values, emptied racks, brokers that are down, failed shards."""

from optimizer.domain import FindingCode
from optimizer.solve.findings.finding import SHOWN, Finding
from optimizer.units import NEVER_SECONDS, agree, clause, first_of, human_bytes, human_time, listed, plural
from optimizer.wording import remedies
from optimizer.wording.words import Words, ids

_CLUSTER = "cluster"
_OR_ACCEPT = "and wait until the replicas are in sync; --accept-under-replicated starts waves before that"
_WAYS = {"in": "inbound", "out": "outbound"}


def rack_emptied(finding: Finding) -> Words:
    """Facts ``rack``, ``brokers``, and ``held``: replicas that stay for now; amount: racks that remain."""
    brokers, held = finding.facts["brokers"], finding.facts["held"]
    stay = f"; {clause(held, 'replica', 'stays', 'stay')} there for now" if held else ""
    return Words(
        f"rack {finding.facts['rack']}",
        f"the plan empties the whole rack ({agree(len(brokers), 'broker', 'brokers')} {ids(brokers)}): replicas are "
        f"spread over {plural(int(finding.amount or 0), 'rack')} only{stay}",
        "keep or add a broker in this rack, unless you no longer need the rack",
    )


def stops_writes(finding: Finding) -> Words:
    """Amount: partitions of the topic; limit: min.insync.replicas; fact ``waves``."""
    count, waves, topic = int(finding.amount or 0), finding.facts["waves"], finding.topic
    named = agree(len(waves), "wave", "waves")
    return Words(
        f"topic {topic}",
        f"{clause(count, 'partition', 'takes', 'take')} no writes with acks=all while {named} {ids(waves)} "
        f"{agree(len(waves), 'runs', 'run')}: min.insync.replicas is {int(finding.limit or 0)}, and until a copy is in "
        "sync too few replicas are",
        f"set min.insync.replicas=1 on {topic} for that time, or run {agree(len(waves), 'the wave', 'these waves')} "
        "while nothing is produced to it",
    )


def loses_records(finding: Finding) -> Words:
    """Amount: bytes; limit: partitions; facts ``unclean`` and ``acks_one``: why they may be lost."""
    topic, unclean, acks_one = finding.topic, finding.facts["unclean"], finding.facts["acks_one"]
    why = ["a leader may be elected that is not in sync"] * unclean
    why += ["its producers do not wait for followers"] * acks_one
    remedy = [f"set unclean.leader.election.enable=false on {topic}, or wait until all replicas are in sync"] * unclean
    remedy += ["use acks=all in its producers"] * acks_one
    return Words(
        f"topic {topic}",
        f"{clause(int(finding.limit or 0), 'partition', 'loses', 'lose')} acknowledged records if the leader's broker "
        f"or rack fails, about {human_bytes(finding.amount or 0)} in all: {listed(why)}",
        "; ".join(remedy),
    )


def wave_too_long(finding: Finding) -> Words:
    """Amount: seconds that the wave may take; limit: seconds from its start to the end of its window; fact ``wave``."""
    wave, most = finding.facts["wave"], finding.amount or 0
    time = "never ends at its rate" if most >= NEVER_SECONDS else f"may take {human_time(most)}"
    return Words(
        f"wave {wave}",
        f"it {time}, and its window has {human_time(finding.limit or 0)}",
        "raise throttle_mb_per_s, if the network has room, or make a window longer; if [schedule] waves is set, allow "
        "more waves",
    )


def newly_exposed(finding: Finding) -> Words:
    """Amount: partitions; limit: all partitions; facts ``worst`` (loss and partitions, by kind) and ``names``."""
    count = int(finding.amount or 0)
    worst = [
        f"{kind} {lost} stops {plural(stopped, 'partition')}"
        for kind, (lost, stopped) in finding.facts["worst"].items()
        if stopped
    ]
    names = first_of(finding.facts["names"], SHOWN, total=count)
    return Words(
        f"{plural(count, 'partition')}",
        f"before the plan no loss of one broker or one rack stops writes to {agree(count, 'it', 'them')}; after the "
        f"plan one would: {names}. The worst losses after the plan, of all partitions: "
        f"{', '.join(worst)}",
        "keep brokers in more racks, add replicas, or lower min.insync.replicas of these topics",
    )


def under_replicated(finding: Finding) -> Words:
    """Amount: partitions; limit: all partitions.

    Facts ``brokers`` with a replica out of sync; ``troubles``: such brokers with the number of these replicas and what
    is wrong with the broker; ``leaderless``: partitions without a leader.
    """
    facts, total, leaderless = finding.facts, int(finding.limit or 0), finding.facts["leaderless"]
    brokers = [*map(str, facts["brokers"])]
    troubles = [f"broker {broker}: {plural(count, 'replica')}, {text}" for broker, count, text in facts["troubles"]]
    parts = (
        f"{agree(len(brokers), 'broker', 'brokers')} {first_of(brokers, SHOWN)}" if brokers else "",
        first_of(troubles, SHOWN, separator="; "),
        f"{plural(leaderless, 'partition')} without a leader" if leaderless else "",
    )
    stays = finding.when == "both"
    return Words(
        f"{int(finding.amount or 0):,} of {plural(total, 'partition')}",
        f"under-replicated ({'; '.join(filter(None, parts))}){'' if stays else ': the plan removes these replicas'}",
        f"start or repair these brokers, {_OR_ACCEPT}" if stays else remedies.EXECUTE,
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


def nested_racks(finding: Finding) -> Words:
    """Amount: racks; facts ``racks``: the names of two that share a part, and ``shared``; ``lines`` for two brokers."""
    facts = finding.facts
    return Words(
        "racks",
        f"each of the {int(finding.amount or 0):,} racks has one broker, and the names are nested: "
        f"{' and '.join(facts['racks'])} are two racks to Kafka, so all replicas of a partition may be in "
        f"{facts['shared']}",
        "give brokers.csv with the racks that count, instead of the file that lists the brokers now: a first line "
        f"broker_id,rack, then a line for each broker: {', then '.join(facts['lines'])}",
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


def tiered_upper_bound(finding: Finding) -> Words:
    """Amount: partitions; fact ``topics``."""
    count, topics = int(finding.amount or 0), finding.facts["topics"]
    unknown = f"{plural(count, 'partition')} of {first_of(topics)} {agree(count, 'has', 'have')} no known offsets"
    return Words(
        "tiered",
        f"bytes are an upper bound: {unknown}, so a copy counts as large as the largest replica",
        "supply the outputs of kafka-get-offsets.sh and kafka-log-dirs.sh: see docs/formats.md",
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
    FindingCode.STOPS_WRITES: stops_writes,
    FindingCode.RACK_EMPTIED: rack_emptied,
    FindingCode.NEWLY_EXPOSED: newly_exposed,
    FindingCode.LOSES_RECORDS: loses_records,
    FindingCode.UNDER_REPLICATED: under_replicated,
    FindingCode.WAVE_TOO_LONG: wave_too_long,
    FindingCode.DEAD_BROKER: dead_broker,
    FindingCode.FENCED_BROKER: fenced_broker,
    FindingCode.NO_RACKS: no_racks,
    FindingCode.NESTED_RACKS: nested_racks,
    FindingCode.NO_DISK_CAPACITY: no_disk_capacity,
    FindingCode.NO_NETWORK_CAPACITY: no_network_capacity,
    FindingCode.NO_RATES: no_rates,
    FindingCode.TIERED_UPPER_BOUND: tiered_upper_bound,
    FindingCode.SHARD_FAILED: shard_failed,
    FindingCode.SHARD_OUT_OF_TIME: shard_out_of_time,
}
