"""What one wave does: lists before and after, throttles, and how far a cluster has come with it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from execution.observed import Observed, Place, Throttle

REASSIGNMENT = "reassignment.json"


class Stand(StrEnum):
    """How far a partition has come."""

    UNTOUCHED = "untouched"
    IN_FLIGHT = "in flight"
    DONE = "done"
    GONE = "gone"
    OTHER = "elsewhere"


@dataclass(frozen=True)
class Wave:
    """One wave.

    Parameters
    ----------
    number : int
    style : str
        careful or kafka: the form of its throttles.
    documents : mapping
        Text by name.
    before, after : mapping of (topic, partition) to brokers
        In order.
    stuck : frozenset of (topic, partition)
        Partitions that Kafka does not take back: they were on a broker that is dead.
    throttles : mapping of (entity type, entity, config) to value
        What is set while it runs.
    found : mapping of the same to value
        What others had set when the plan was made: on anything.
    """

    number: int
    style: str
    documents: Mapping[str, str]
    before: Mapping[Place, tuple[int, ...]]
    after: Mapping[Place, tuple[int, ...]]
    stuck: frozenset[Place]
    throttles: Mapping[Throttle, str]
    found: Mapping[Throttle, str]

    def stand(self, place: Place, now: Observed) -> Stand:
        """How far one of its partitions has come; a move to other lists is ``OTHER``."""
        replicas, target = now.replicas.get(place), now.in_flight.get(place)
        if replicas is None:
            return Stand.GONE
        if target is not None:
            return Stand.IN_FLIGHT if target == self.after[place] else Stand.OTHER
        if replicas == self.after[place]:
            return Stand.DONE
        return Stand.UNTOUCHED if replicas == self.before[place] else Stand.OTHER

    def stands(self, now: Observed) -> dict[Stand, list[Place]]:
        """Its partitions by how far they have come."""
        found: dict[Stand, list[Place]] = {stand: [] for stand in Stand}
        for place in sorted(self.after):
            found[self.stand(place, now)].append(place)
        return found

    def missing_throttles(self, now: Observed) -> list[str]:
        """Throttles of its own that are not set, or not seen, but for brokers that are not alive and topics that are
        gone."""
        missing = [key for key in self._settable(now) if now.throttles.get(key) != self.throttles[key]]
        unknown = " (not known: it does not answer)"
        return [f"{self._told(key)}{'' if now.tells(*key[:2]) else unknown}" for key in missing]

    def absent_throttles(self, now: Observed) -> list[str]:
        """Those in whose place nothing is set; another rate is an operator's, who knows why.

        What a silent broker has is not known, so nothing of it is told as absent.
        """
        absent = [key for key in self._settable(now) if key not in now.throttles]
        return [self._told(key) for key in absent if now.tells(*key[:2])]

    def unseen(self, now: Observed) -> frozenset[int]:
        """Silent brokers that hold its replicas or its throttles."""
        throttled = {int(name) for kind, name, _ in self.throttles if kind == "brokers"}
        return now.silent & throttled.union(*self.after.values())

    @property
    def copies(self) -> bool:
        """Whether a broker gets a replica."""
        return any(set(after) - set(self.before[place]) for place, after in self.after.items())

    def _settable(self, now: Observed) -> list[Throttle]:
        return [(kind, name, config) for kind, name, config in sorted(self.throttles) if now.knows(kind, name)]

    def _told(self, key: Throttle) -> str:
        return f"{' '.join(key)}={self.throttles[key]}"


def wave_of(
    number: int, manifest: Mapping[str, Any], documents: Mapping[str, str], not_back: Iterable[str] = ()
) -> Wave:
    """A wave from the plan's manifest, its documents, and those of the whole plan of what Kafka does not take back."""
    after, stuck = lists_of([documents[REASSIGNMENT]]), lists_of(not_back)
    back = lists_of(text for name, text in documents.items() if name.startswith("rollback"))
    style = manifest["throttle_style"]
    throttles = json.loads(documents.get("throttle.json", "{}")).get(style, [])
    return Wave(
        number=number,
        style=style,
        documents=documents,
        before={place: back[place] if place in back else stuck[place] for place in after},
        after=after,
        stuck=frozenset(place for place in after if place not in back),
        throttles={_throttle(row): row["value"] for row in throttles},
        found={(kind, name, config): value for kind, name, config, value in manifest["throttles_found"]},
    )


def lists_of(texts: Iterable[str]) -> dict[Place, tuple[int, ...]]:
    """Replicas by partition of reassignment documents."""
    return {
        (entry["topic"], entry["partition"]): tuple(entry["replicas"])
        for text in texts
        for entry in json.loads(text)["partitions"]
    }


def _throttle(row: Mapping[str, str]) -> Throttle:
    return row["entity_type"], row["entity_name"], row["config"]
