"""Random logs: Kafka's own truncation against ours. ``python -m tests.kafka_rules.compare_truncation``."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kafka_rules.compare_assignors import kafka_answers, main
from tests.replay_vectors import Query, replay

PROGRAM = Path(__file__).with_name("Truncate.java")


def _log(rng: random.Random, shared: list[tuple[int, int]], end: int) -> Query:
    """A log that has a part of the shared history, and perhaps epochs of its own."""
    epochs = shared[: rng.randint(0, len(shared))]
    at = shared[len(epochs)][1] if len(epochs) < len(shared) else end
    if rng.random() < 0.3 and epochs:
        at = rng.randint(epochs[-1][1] + 1, max(at, epochs[-1][1] + 1))
    epoch = epochs[-1][0] if epochs else 0
    for _ in range(rng.choice([0, 0, 1, 2, 3])):
        epoch += rng.randint(1, 3)
        epochs, at = [*epochs, (epoch, at)], at + rng.randint(1, 5)
    forgotten = rng.randint(0, len(epochs)) if rng.random() < 0.1 else 0  # retention deletes the first epochs
    return {"epochs": [[*entry] for entry in epochs[forgotten:]], "end": at}


def random_logs(rng: random.Random) -> Query:
    """A leader and a follower with a common past, as a query of ``Truncate.java``."""
    shared, epoch, at = list[tuple[int, int]](), rng.randint(0, 2), 0
    for _ in range(rng.randint(0, 5)):
        shared, epoch, at = [*shared, (epoch, at)], epoch + rng.randint(1, 3), at + rng.randint(1, 6)
    return {"op": "truncate", **{side: _log(rng, shared, at) for side in ("leader", "follower")}}


def differences(seed: int, count: int) -> Iterator[tuple[Query, Any, Any]]:
    """Each query that both answer differently, with Kafka's answer and ours."""
    rng = random.Random(seed)
    queries = [random_logs(rng) for _ in range(count)]
    for query, wanted in zip(queries, kafka_answers(queries, PROGRAM), strict=True):
        outcome = replay({"id": "", "in": query, "out": wanted})
        if outcome.status != "passed":
            yield query, wanted, outcome.got


if __name__ == "__main__":
    sys.exit(main(differences, "logs"))
