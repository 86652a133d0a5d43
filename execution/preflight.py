"""What stands in the way of a wave: the cluster against what the plan takes it to be."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from execution.observed import Observed, Place
from execution.wave import Stand, Wave
from optimizer.units import agree, clause, plural

_SHOWN = 5  # names in a line; the rest is counted
_LONGEST = 40  # characters of a config's value in a line: a list of throttled replicas has thousands


def problems(
    wave: Wave, now: Observed, *, topic_ids: Mapping[str, str | None], earlier: Mapping[Place, tuple[int, ...]]
) -> list[str]:
    """All that differs from what the wave expects, one line each; empty where it may begin or go on.

    Parameters
    ----------
    topic_ids : mapping of topic to id
        As the plan knows them; None where its inputs told none.
    earlier : mapping of (topic, partition) to brokers
        Where the waves before this one put their partitions: disks have room for this wave only then.
    """
    return [
        *_earlier(earlier, now),
        *_topics(wave, now, topic_ids),
        *_brokers(wave, now),
        *_replicas(wave, now),
        *_reassignments(wave, now),
        *_throttles(wave, now),
    ]


def notes(wave: Wave, topic_ids: Mapping[str, str | None]) -> list[str]:
    """What could not be looked at."""
    unknown = sorted({topic for topic, _ in wave.after if topic_ids.get(topic) is None})
    return (
        [f"not known whether these were made anew, the plan's inputs had no ids: {_some(unknown)}"] if unknown else []
    )


def undone(wanted: Mapping[Place, tuple[int, ...]], now: Observed) -> list[Place]:
    """Partitions that are not where they should be; those of topics that are gone are not among them."""
    return [place for place, after in wanted.items() if now.replicas.get(place, after) != after]


def names(places: Iterable[Place]) -> str:
    """Partitions as Kafka names them; the first few of many."""
    return _some([f"{topic}-{partition}" for topic, partition in sorted(places)])


def broker_names(ids: Collection[int]) -> str:
    """``broker 3``, ``brokers 3, 4``; the first few of many."""
    return f"{agree(len(ids), 'broker', 'brokers')} {_some(map(str, sorted(ids)))}"


def unanswered(silent: Collection[int]) -> str:
    """Which brokers tell nothing of their throttles."""
    do, their = agree(len(silent), "does", "do"), agree(len(silent), "its", "their")
    return f"{broker_names(silent)} {do} not answer, {their} throttles are not known"


def _earlier(earlier: Mapping[Place, tuple[int, ...]], now: Observed) -> Iterator[str]:
    if left := undone(earlier, now):
        where = agree(len(left), "is not where it should be", "are not where they should be")
        yield f"the waves before are not done: {plural(len(left), 'partition')} {where}: {names(left)}"


def _topics(wave: Wave, now: Observed, topic_ids: Mapping[str, str | None]) -> Iterator[str]:
    topics = sorted({topic for topic, _ in wave.after})
    gone = [topic for topic in topics if topic not in now.topic_ids]
    if gone:
        yield f"{clause(len(gone), 'topic', 'is', 'are')} gone: {_some(gone)}; plan again"
    known = ((topic, topic_ids.get(topic), now.topic_ids.get(topic)) for topic in topics)
    anew = [topic for topic, before, after in known if before and after and before != after]
    if anew:
        were = clause(len(anew), "topic", "was", "were")
        yield f"{were} deleted and made anew since the plan: {_some(anew)}; plan again"


def _brokers(wave: Wave, now: Observed) -> Iterator[str]:
    waiting = [place for place in wave.after if wave.stand(place, now) is not Stand.IN_FLIGHT]
    dead = {broker for place in waiting for broker in wave.after[place]} - now.alive
    if dead:
        are, them = agree(len(dead), "is", "are"), agree(len(dead), "it", "them")
        yield f"{broker_names(dead)} {are} to hold replicas, but {are} not alive: start {them}, or plan again"
    if waiting and (silent := wave.unseen(now)):
        them = agree(len(silent), "it", "them")
        yield f"{unanswered(silent)}: start {them}, or allow DESCRIBE_CONFIGS on the cluster"
    orphaned = [place for place in wave.after if place in now.replicas and not now.in_sync[place] & now.alive]
    if orphaned:
        yield f"no living broker is in sync for {names(orphaned)}: nothing can be copied"


def _replicas(wave: Wave, now: Observed) -> Iterator[str]:
    other = wave.stands(now)[Stand.OTHER]
    if other:
        first = other[0]
        seen, wanted = list(now.replicas[first]), list(wave.before[first])
        example = f"{names([first])} has {seen}, not {wanted}"
        remedy = "were all waves before this one executed? Else plan again"
        where = agree(len(other), "is not where the plan expects it", "are not where the plan expects them")
        yield f"{plural(len(other), 'partition')} {where}: {names(other)}; {example}; {remedy}"


def _reassignments(wave: Wave, now: Observed) -> Iterator[str]:
    foreign = [place for place in now.in_flight if place not in wave.after]
    if foreign:
        are = clause(len(foreign), "other partition", "is", "are")
        remedy = agree(len(foreign), "wait for its end, or cancel it", "wait for their end, or cancel them")
        yield f"{are} being reassigned: {names(foreign)}; {remedy}"


def _throttles(wave: Wave, now: Observed) -> Iterator[str]:
    """Those that are neither the wave's own nor what the plan has found and puts back."""
    foreign = [
        f"{kind} {name} {config}={_short(value)}"
        for (kind, name, config), value in sorted(now.throttles.items())
        if value not in (wave.throttles.get((kind, name, config)), wave.found.get((kind, name, config)))
    ]
    if foreign:
        were = clause(len(foreign), "throttle", "was", "were")
        them = agree(len(foreign), "it", "them")
        yield f"{were} set by others since the plan: {_some(foreign)}; take {them} off first"


def _some(values: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    listed: Sequence[str] = list(values)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}..."
