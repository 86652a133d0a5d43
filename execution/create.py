"""Creates topics and adds partitions where ``./ballast place`` has placed them."""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from execution.admin import KafkaAdmin, refuse_other_cluster
from execution.observed import Observed
from execution.preflight import broker_names
from optimizer.errors import BallastError, ConfigError, bullets
from optimizer.kafka.cordon import ALL_DIRS
from optimizer.units import agree, plural
from stored.verdicts import Refused

FORMAT = 1  # version of the document


def create(options: argparse.Namespace, client: Mapping[str, object], say: Callable[[str], None]) -> None:
    """Create what a document of ``./ballast place`` has; what is there already, with the same replicas, stays.

    Raises
    ------
    ConfigError
        When the document is not the one that was read, or is not of this cluster.
    Refused
        With all problems, before anything is changed.
    BallastError
        When Kafka refused.
    """
    content = _read(options)
    with KafkaAdmin(client) as admin:
        now = admin.observe()
        if not options.new_cluster_id:
            ids = now.kafka_cluster_id, content["kafka_cluster_id"]
            refuse_other_cluster(client, *ids, f"{options.file} is for", content["cluster_id"])
        missing = [topic for topic in content["topics"] if not _is_there(topic, now)]
        problems = [line for topic in missing for line in _problems(topic, now)]
        if problems:
            raise Refused(*problems)
        for validate_only in (True, False):
            reasons = {
                topic["topic"]: admin.create(
                    topic["topic"], topic["first"], topic["replicas"], validate_only=validate_only
                )
                for topic in missing
            }
            if refused := [f"{name}: {reason}" for name, reason in reasons.items() if reason]:
                raise BallastError(
                    f"Kafka refuses{'' if validate_only else ', and has created the others'}:{bullets(refused)}"
                )
    for topic in content["topics"]:
        done = "is created" if topic in missing else "is there already"
        say(f"{plural(len(topic['replicas']), 'partition')} of {topic['topic']}: {done}")


def _read(options: argparse.Namespace) -> dict[str, Any]:
    """The document, if it is the one that was read."""
    try:
        data = Path(options.file).read_bytes()
        content: dict[str, Any] = json.loads(data)
        topics = [(each["topic"], each["first"], each["replicas"]) for each in content["topics"]]
        is_known = content["format"] == FORMAT and bool(topics)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{options.file} is no document of ./ballast place: {error}") from error
    if not is_known:
        raise ConfigError(f"{options.file} is no document of ./ballast place of this release")
    found = hashlib.sha256(data).hexdigest()
    if not found.startswith(options.sha256):
        raise ConfigError(f"{options.file} has sha256 {found}, not {options.sha256}: read it again, and give its own")
    if content["cluster_id"] != options.cluster:
        raise ConfigError(f"{options.file} is for cluster {content['cluster_id']!r}, not {options.cluster!r}")
    return content


def _is_there(topic: Mapping[str, Any], now: Observed) -> bool:
    """Whether the partitions exist with these replicas, as after a command that was killed."""
    lists = {(topic["topic"], topic["first"] + at): tuple(ids) for at, ids in enumerate(topic["replicas"])}
    return all(now.replicas.get(partition) == ids for partition, ids in lists.items())


def _problems(topic: Mapping[str, Any], now: Observed) -> Iterator[str]:
    name, first = topic["topic"], topic["first"]
    count = sum(each == name for each, _ in now.replicas)
    if count != first:
        was = f"had {plural(first, 'partition')}" if first else "did not exist"
        is_now = f"has {plural(count, 'partition')}" if count else "does not exist"
        yield f"topic {name} {was} at the snapshot, and {is_now} now: plan again, then place again"
    used = {broker for ids in topic["replicas"] for broker in ids}
    if dead := sorted(used - now.alive):
        yield f"topic {name}: {broker_names(dead)} {agree(len(dead), 'is', 'are')} not alive: plan and place again"
    if closed := sorted(broker for broker in used if now.cordoned.get(broker) == ALL_DIRS):
        yield f"topic {name}: {broker_names(closed)} {agree(len(closed), 'is', 'are')} cordoned: plan and place again"
