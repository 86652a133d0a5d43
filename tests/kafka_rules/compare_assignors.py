"""Random groups: Kafka's own sticky assignors against ours. ``python -m tests.kafka_rules.compare_assignors``.

Members hold what an assignment gave them before others left or came, or claim partitions that another member has, that
are of an old generation, that no longer exist, or that they no longer subscribe to.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from setup.java import java
from tests.replay_vectors import Query, replay
from tour.cluster import java_command

PROGRAM = Path(__file__).with_name("Assign.java")
# The second, third and fourth have one hash code; so have the last two.
NAMES = ("app", "AaAa", "BBBB", "AaBB", "é", "\U0001f600", "Aa", "BB")


def can_compile() -> bool:
    """Whether the Java has a compiler; that of the wheel has none."""
    modules = subprocess.run([java(), "--list-modules"], capture_output=True, text=True, check=True)
    return "jdk.compiler" in modules.stdout


def kafka_answers(queries: list[Query], program: Path = PROGRAM) -> list[Any]:
    """What Kafka's classes answer, in one process."""
    text = "".join(json.dumps(query) + "\n" for query in queries)
    command = [*java_command(heap_mb=256, level="OFF"), str(program)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _names(rng: random.Random, count: int) -> list[str]:
    return [f"{rng.choice(NAMES)}{'-' * (at > 0)}{at or ''}{rng.choice(['', '', 'Aa', 'BB'])}" for at in range(count)]


def _held(query: Query) -> dict[str, list[str]]:
    """An assignment of these topics and members that is over: who holds what."""
    got = replay({"id": "", "in": {**query, "op": "assignor"}, "out": {}}).got
    return got.get("ok", {})


def _member(rng: random.Random, topics: list[str], *, is_equal: bool) -> Query:
    subscribed = topics if is_equal else rng.sample(topics, rng.randint(0 if rng.random() < 0.1 else 1, len(topics)))
    return {"topics": subscribed + rng.choices(["absent", "t0"], k=rng.random() < 0.03)}


def random_group(rng: random.Random) -> Query:
    """A group of up to 14 members, as a query of ``Assign.java``."""
    names = [f"t{at}" for at in range(rng.choice([1, 1, 2, 3, 5]))]
    counts = {name: rng.choice([1, 2, 3, 7, rng.randint(1, 40)]) for name in names}
    if rng.random() < 0.05:
        counts[names[0]] = 300
    members, is_equal = _names(rng, rng.choice([1, 2, 3, 5, rng.randint(1, 14)])), rng.random() < 0.4
    query: Query = {
        "assignor": rng.choice(["sticky", "cooperative-sticky"]),
        "topics": counts,
        "members": {name: _member(rng, names, is_equal=is_equal) for name in members},
    }
    left = {f"left-{at}": _member(rng, names, is_equal=is_equal) for at in range(rng.choice([0, 0, 1, 3]))}
    joined = set(rng.sample(members, rng.choice([0, 0, 1, len(members)]) if len(members) > 1 else 0))
    held = _held({**query, "members": {**query["members"], **left}}) if rng.random() < 0.9 else {}
    for name in set(held) - set(left) - joined:
        query["members"][name] |= {"owned": held[name], "generation": 5}
    _disturb(rng, query, counts)
    return query


def _disturb(rng: random.Random, query: Query, counts: dict[str, int]) -> None:
    """Claims that do not fit: of another member's partitions, of an old generation, of what no longer exists."""
    everything = [f"{topic}-{partition}" for topic, count in counts.items() for partition in range(count)]
    if rng.random() < 0.3:
        # A few members have everything: many partitions move between the same members, some there and back.
        free = everything[:]
        for member in query["members"].values():
            mine = [name for name in free if name.rsplit("-", 1)[0] in member["topics"]]
            member["owned"] = mine if rng.random() < 0.7 else rng.sample(mine, len(mine) // 2)
            member["generation"] = rng.choice([5, 5, 5, 4])
            free = [name for name in free if name not in member["owned"] or rng.random() < 0.1]
    for member in query["members"].values():
        if rng.random() < 0.2:
            stolen = rng.sample(everything, min(len(everything), rng.choice([1, 3, 30])))
            member["owned"] = list(dict.fromkeys(member.get("owned", []) + stolen))
            member["generation"] = rng.choice([3, 4, 5, 5, 6])
        if rng.random() < 0.02:
            member["owned"] = [*member.get("owned", []), rng.choice(["gone-0", "t0-40", "t1-300", "t0-41"])]
        if rng.random() < 0.05:
            member.pop("generation", None)
        if rng.random() < 0.1 and "owned" in member:
            rng.shuffle(member["owned"])


def differences(seed: int, groups: int) -> Iterator[tuple[Query, Any, Any]]:
    """Each query that both answer differently, with Kafka's answer and ours; errors are compared by their class."""
    rng = random.Random(seed)
    queries = [random_group(rng) for _ in range(groups)]
    for query, wanted in zip(queries, kafka_answers(queries), strict=True):
        outcome = replay({"id": "", "in": {**query, "op": "assignor"}, "out": wanted})
        if outcome.status != "passed":
            yield query, wanted, outcome.got


def main(differences: Callable[[int, int], Iterator[tuple[Query, Any, Any]]], noun: str) -> int:
    """Print the first differences and their number; 1 if there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument(f"--{noun}", dest="count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = list(differences(options.seed, options.count))
    for query, wanted, got in found[:3]:
        print(json.dumps({"in": query, "kafka": wanted, "ballast": got}))
    print(f"{options.count} {noun}, {len(found)} different")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(differences, "groups"))
