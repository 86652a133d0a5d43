"""Replay vectors made by Kafka's own classes: ``python tests/replay_vectors.py FILE...``.

A line is ``{"id", "in": {"op", ...}, "out": {"ok": ...} | {"error": {"type", "message"}}}``. Prints each failure, ends
with the counts, and exits with 1 if any failed. Operations that are not reimplemented are skipped and counted.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from optimizer.errors import KafkaError
from optimizer.kafka.admin_utils import assign_replicas, broker_ring, rack_alternated
from optimizer.kafka.assignors import Member, range_assignment, round_robin_assignment
from optimizer.kafka.broker import Broker
from optimizer.kafka.execute import check_execute
from optimizer.kafka.generate import generate
from optimizer.kafka.java import JavaRandom, hash_map_order, optional_hash
from optimizer.kafka.partition_state import InFlight, cancel, complete, start
from optimizer.kafka.reassignment_json import (
    format_reassignment,
    parse_reassignment,
    partition_name,
)
from optimizer.kafka.sticky_assignors import cooperative_sticky_assignment, sticky_assignment
from optimizer.kafka.striped_placer import StripedReplicaPlacer, rack_layout
from optimizer.kafka.throttle import config_entries, tool_throttles
from optimizer.kafka.versions import completion_rule
from tests.kafka_rules.elections import ElectionRules, Partition, fence
from tests.kafka_rules.truncation import Log, follow

Query = dict[str, Any]
Key = tuple[str, int]

# The only directory of the fake cluster that the vectors ran on.
LOG_DIR = "/tmp/kafka-logs"


class Outcome(NamedTuple):
    """How one vector went: passed, failed or skipped."""

    vector_id: str
    status: str
    wanted: Any
    got: Any


def _brokers(rows: list[Query]) -> list[Broker]:
    return [Broker(row["id"], row["rack"], row.get("fenced", False)) for row in rows]


def _key(name: str) -> Key:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def _assignment(named: dict[str, list[int]]) -> dict[Key, list[int]]:
    return {_key(name): replicas for name, replicas in named.items()}


def _named(assignment: dict[Key, list[int]]) -> dict[str, list[int]]:
    return {partition_name(key): replicas for key, replicas in assignment.items()}


def _replica_names(log_dirs: dict[tuple[str, int, int], str]) -> dict[str, str]:
    return {f"{topic}-{partition}-{broker}": path for (topic, partition, broker), path in log_dirs.items()}


def _everywhere(topics: dict[str, list[list[int]]]) -> dict[tuple[str, int, int], str]:
    return {
        (topic, partition, broker): LOG_DIR
        for topic, lists in topics.items()
        for partition, replicas in enumerate(lists)
        for broker in replicas
    }


def _random(query: Query) -> Any:
    random = JavaRandom(query["seed"])
    return [random.next_int(bound) for bound in query["bounds"]]


def _shuffle(query: Query) -> Any:
    items = list(range(query["n"]))
    JavaRandom(query["seed"]).shuffle(items)
    return items


def _hash_order(query: Query) -> Any:
    return hash_map_order(query["keys"], optional_hash)


def _rack_list(query: Query) -> Any:
    return rack_alternated({int(broker): rack for broker, rack in query["racks"].items()})


def _admin_utils(query: Query) -> Any:
    placed = assign_replicas(
        broker_ring(_brokers(query["brokers"])),
        query["n"],
        query["rf"],
        start_index=query.get("start", -1),
        start_partition=query.get("startPartition", -1),
        random=JavaRandom(query["seed"]) if "seed" in query else None,
    )
    return {str(partition): replicas for partition, replicas in placed.items()}


def _striped(query: Query) -> Any:
    placer = StripedReplicaPlacer(JavaRandom(query["seed"]))
    layout = rack_layout(_brokers(query["brokers"]))
    return [placer.place(layout, call["n"], call["rf"]) for call in query["calls"]]


def _generate(query: Query) -> Any:
    old = query["op"] == "generate40"
    result = generate(
        JavaRandom(query["seed"]),
        cluster=_brokers(query["cluster"]),
        topics=query["topics"],
        topics_to_move=[row["topic"] for row in json.loads(query["json"])["topics"]],
        broker_ids=[int(broker) for broker in query["brokers"].split(",") if broker],
        rack_aware=query.get("rackAware", True),
        log_dirs={} if old else _everywhere(query["topics"]),
        algorithm="admin_utils" if old else "striped",
    )
    return {"proposed": _named(result.proposed), "stdout": result.stdout}


def _execute(query: Query) -> Any:
    topics = query["topics"]
    # The fake cluster lists the current replicas of a partition in flight, and as added what its target adds to them.
    in_flight = {
        (topic, p): InFlight(tuple(topics[topic][p]), tuple(b for b in target if b not in topics[topic][p]), ())
        for (topic, p), target in _assignment(query.get("inflight", {})).items()
    }
    lists = {topic: range(len(replicas)) for topic, replicas in topics.items()}
    check_execute(query["json"], live_broker_ids=[row["id"] for row in query["cluster"]], partitions_per_topic=lists)
    plan = parse_reassignment(query["json"])
    configs: dict[str, dict[str, dict[str, str]]] = {"topics": {}, "brokers": {}}
    if query.get("throttle", -1) >= 0:
        current = {(topic, partition): topics[topic][partition] for topic, partition in plan.replicas}
        throttles = tool_throttles(plan.replicas, current, in_flight=in_flight)
        for kind, name, config, value in config_entries(throttles, query["throttle"], query["throttle"]):
            configs[kind].setdefault(name, {})[config] = value
    return {
        "topicConfigs": configs["topics"],
        "brokerConfigs": configs["brokers"],
        "request": _named(plan.replicas),
        "dirs": _replica_names(plan.log_dirs),
    }


def _parse_execute(query: Query) -> Any:
    plan = parse_reassignment(query["json"])
    brokers = sorted({broker for _, _, broker in plan.log_dirs})
    return {"parts": _named(plan.replicas), "dirs": _replica_names(plan.log_dirs), "movingBrokers": brokers}


def _throttles(query: Query) -> Any:
    in_flight = {
        _key(name): InFlight(tuple(s["replicas"]), tuple(s["adding"]), tuple(s["removing"]))
        for name, s in query.get("inflight", {}).items()
    }
    got = tool_throttles(_assignment(query["proposed"]), _assignment(query["current"]), in_flight=in_flight)
    return {"leader": got.leader, "follower": got.follower, "brokers": list(got.brokers)}


def _format(query: Query) -> Any:
    paths = query.get("dirs", {})
    return format_reassignment(
        (*_key(name), replicas, [paths.get(f"{name}-{broker}", "any") for broker in replicas])
        for name, replicas in query["parts"].items()
    )


def _in_flight(query: Query) -> Any:
    state = start(query["current"], query["target"])
    got: Query = {
        "replicas": list(state.replicas),
        "adding": list(state.adding),
        "removing": list(state.removing),
        "afterCancel": list(cancel(state)),
    }
    if "isr" in query:
        done = complete(state, query["isr"])
        got["completed"] = done and {"replicas": list(done.replicas), "isr": list(done.isr)}
    return got


def _reassign_ends(query: Query) -> Any:
    rule = completion_rule(query["kafka"], is_kraft=True)
    done = complete(start(query["current"], query["target"]), query["isr"], rule)
    return done and {"replicas": list(done.replicas), "isr": list(done.isr)}


def _elect(query: Query) -> Any:
    partition = Partition(
        tuple(query["replicas"]),
        tuple(query["isr"]),
        query["leader"],
        elr=tuple(query["elr"]),
        adding=tuple(query["adding"]),
        removing=tuple(query["removing"]),
    )
    rules = ElectionRules(query["minIsr"], has_elr=query["elrOn"], allows_unclean=query["unclean"])
    states = []
    for number, broker in enumerate(query["down"], start=1):
        partition = fence(partition, broker, down=query["down"][:number], rules=rules)
        leader = -1 if partition.leader is None else partition.leader
        state = {"leader": leader, "isr": partition.isr, "elr": partition.elr, "replicas": partition.replicas}
        states.append({name: list(x) if isinstance(x, tuple) else x for name, x in state.items()})
    return states


def _truncate(query: Query) -> Any:
    leader, follower = (
        Log(tuple((epoch, start) for epoch, start in query[side]["epochs"]), query[side]["end"])
        for side in ("leader", "follower")
    )
    kept = follow(leader, follower)
    return kept and {"end": kept.end, "epochs": [[*entry] for entry in kept.epochs]}


WITHOUT_RACKS = {
    "roundrobin": round_robin_assignment,
    "sticky": sticky_assignment,
    "cooperative-sticky": cooperative_sticky_assignment,
}


def _assignor(query: Query) -> Any:
    topics = query["topics"]
    members = [
        Member(
            name,
            tuple(m["topics"]),
            m.get("instance"),
            m.get("rack"),
            tuple(map(_key, m.get("owned", ()))),
            m.get("generation", -1),
        )
        for name, m in query["members"].items()
    ]
    counts = {topic: lists if isinstance(lists, int) else len(lists) for topic, lists in topics.items()}
    if query["assignor"] in WITHOUT_RACKS:
        assigned = WITHOUT_RACKS[query["assignor"]](counts, members)
    else:
        rack_of = {node["id"]: node["rack"] for node in query.get("nodes", [])}
        racks = {
            (topic, partition): frozenset(rack_of[broker] for broker in replicas if rack_of[broker])
            for topic, lists in topics.items()
            if not isinstance(lists, int)
            for partition, replicas in enumerate(lists)
        }
        assigned = range_assignment(counts, members, partition_racks=racks)
    return {member: [partition_name(key) for key in keys] for member, keys in assigned.items()}


OPERATIONS: dict[str, Callable[[Query], Any]] = {
    "random": _random,
    "truncate": _truncate,
    "shuffle": _shuffle,
    "hashorder": _hash_order,
    "racklist": _rack_list,
    "adminutils": _admin_utils,
    "striped": _striped,
    "generate": _generate,
    "generate40": _generate,
    "execute": _execute,
    "parse_execute": _parse_execute,
    "throttles": _throttles,
    "format": _format,
    "inflight": _in_flight,
    "reassign_ends": _reassign_ends,
    "elect": _elect,
    "assignor": _assignor,
}


def replay(vector: Query) -> Outcome:
    """Run one vector; of Jackson's syntax errors only the exception class is compared."""
    operation = OPERATIONS.get(vector["in"]["op"])
    if operation is None:
        return Outcome(vector["id"], "skipped", None, None)
    wanted = vector["out"]
    got: Query
    try:
        got = {"ok": operation(vector["in"])}
    except KafkaError as error:
        got = {"error": {"type": error.exception, "message": error.message}}
        if error.message is None and wanted.get("error", {}).get("type") == error.exception:
            got = wanted
    except Exception as error:
        # A crash is a failed vector, not the end of the replay.
        got = {"crash": repr(error)}
    return Outcome(vector["id"], "passed" if got == wanted else "failed", wanted, got)


def replay_file(path: Path) -> Iterator[Outcome]:
    """Run every line of a file."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield replay(json.loads(line))


def main(paths: list[str]) -> int:
    """Run files, print failures and counts; 1 if any failed, 2 without a file."""
    if not paths:
        print("usage: python tests/replay_vectors.py FILE...", file=sys.stderr)
        return 2
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for path in paths:
        for outcome in replay_file(Path(path)):
            counts[outcome.status] += 1
            if outcome.status == "failed":
                print(f"{path}: {outcome.vector_id} failed")
                print(f"  wanted {json.dumps(outcome.wanted, ensure_ascii=False)}")
                print(f"  got    {json.dumps(outcome.got, ensure_ascii=False)}")
    if counts["skipped"]:
        print(f"{counts['skipped']} skipped: not reimplemented")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
