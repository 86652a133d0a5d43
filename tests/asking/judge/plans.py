"""Plans of other tools as their files have them, for tests."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from optimizer.kafka.reassignment_json import TopicPartition, format_reassignment

CURRENT, PROPOSED = "Current partition replica assignment", "Proposed partition reassignment configuration"
SAVE = "Save this to use as the --reassignment-json-file option during rollback"

Lists = Mapping[TopicPartition, Sequence[int]]
LISTS = st.dictionaries(
    st.tuples(
        st.sampled_from(("t", "topic", "a-0", "_x.y", "proposals", "replicas"))
        | st.from_regex(r"[a-z.]{3,9}", fullmatch=True),
        st.integers(0, 12),
    ),
    st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 9), min_size=1, max_size=4, unique=True).map(tuple),
    min_size=1,
    max_size=6,
)


def document(*entries: Any, **fields: Any) -> str:
    """Reassignment JSON, one line."""
    return json.dumps({"version": 1, "partitions": list(entries), **fields})


def entry(topic: str = "t", partition: int = 0, replicas: Sequence[Any] = (1, 2), **fields: Any) -> dict[str, Any]:
    """An entry of reassignment JSON."""
    return {"topic": topic, "partition": partition, "replicas": list(replicas), **fields}


def generated(current: str, proposed: str) -> str:
    """The output of ``--generate``."""
    return f"{CURRENT}\n{current}\n\n{PROPOSED}\n{proposed}\n"


def proposal(topic: str = "t", partition: int = 0, old: Sequence[Any] = (1, 2), new: Sequence[Any] = (3, 2)) -> Any:
    """A proposal of Cruise Control."""
    named = {"hash": 0, "partition": partition, "topic": topic}
    return {
        "oldReplicas": list(old),
        "newReplicas": list(new),
        "topicPartition": named,
        "oldLeader": old[0] if old else -1,
    }


def answer(*proposals: Any, **fields: Any) -> str:
    """A verbose answer of Cruise Control, with a ``NaN``."""
    summary = {"numReplicaMovements": len(proposals), "dataToMoveMB": 0, "onDemandBalancednessScoreAfter": float("nan")}
    return json.dumps({"summary": summary, "proposals": list(proposals), "goalSummary": [], "version": 1, **fields})


def plain(lists: Lists, _old: Lists) -> str:
    """Reassignment JSON as Kafka's tool writes it."""
    return format_reassignment((*key, replicas, None) for key, replicas in lists.items())


def indented(lists: Lists, _old: Lists) -> str:
    """Reassignment JSON without directories, over many lines, with the version at the end."""
    return json.dumps(
        {"partitions": [entry(*key, replicas) for key, replicas in lists.items()], "version": 1}, indent=2
    )


def generate(lists: Lists, old: Lists) -> str:
    """The output of ``--generate``."""
    return generated(plain(old, {}), plain(lists, {}))


def cruise_control(lists: Lists, old: Lists) -> str:
    """The answer of Cruise Control on one line."""
    return answer(*(proposal(*key, old[key], replicas) for key, replicas in lists.items()))


def cruise_control_indented(lists: Lists, old: Lists) -> str:
    """The answer of Cruise Control over many lines, after HTTP headers."""
    return f"HTTP/1.1 200 OK\nVersion: 2\n\n{json.dumps(json.loads(cruise_control(lists, old)), indent=1)}\n"


Write = Callable[[Lists, Lists], str]
WITHOUT_OLD: tuple[Write, ...] = (plain, indented)
WITH_OLD: tuple[Write, ...] = (generate, cruise_control, cruise_control_indented)
