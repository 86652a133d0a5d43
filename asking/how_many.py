"""How many brokers keep every disk below a share of its capacity, also after any one rack is lost and rebuilt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from asking.answer import Answer, answer
from asking.fitting import shortage
from asking.progress import Search, say_estimate
from asking.question import Question, facts_for, instance_for, with_racks
from asking.run_facts import RunFacts
from optimizer.errors import ConfigError
from optimizer.planning.arrays import to_brokers, to_partitions
from optimizer.planning.plan_figures import AFTER
from optimizer.planning.policy.refusals import known_of
from optimizer.solve.rules.bands import broker_loads, demand_of, reachable_means, replica_weights
from optimizer.solve.rules.resources import DISK
from optimizer.units import human_percent, plural

MOST_ADDED = 500  # brokers; if so many do not help, the limit cannot be met by adding brokers
_NOWHERE = ""
_UNKNOWN = "--disk-below needs the disk capacity of every broker: see docs/formats.md"


@dataclass(frozen=True)
class Need:
    """The least number of brokers.

    Parameters
    ----------
    count : int
    answers : sequence of Answer
        The plan with the new brokers, and, with ``survive_rack``, one for each lost rack.
    limit : float
        Share of a disk.
    rack : str
        Where the fullest disk is.
    lost_rack : str
        The loss after which it is the fullest; empty without a loss.
    """

    count: int
    answers: Sequence[Answer]
    limit: float
    rack: str
    lost_rack: str

    def words(self) -> str:
        """One sentence."""
        fullest = max(_fullest(item) for item in self.answers)
        when = f" after the loss of rack {self.lost_rack}" if self.lost_rack else ""
        where = f" of rack {self.rack}" if self.rack else ""
        need = f"{plural(self.count, 'new broker')} needed" if self.count else "No new broker is needed"
        limit = human_percent(100 * self.limit)
        return (
            f"{need} for disks below {limit}: the disks{where} decide{when}, the fullest has {human_percent(fullest)}."
        )


def how_many(facts: RunFacts, base: Question, *, like: int, limit: float, survive_rack: bool) -> Need:
    """Count brokers by sums first, then solve, one broker more until the plans are below the limit.

    Parameters
    ----------
    base : Question
        Other requests, other loads.
    like : int
        New brokers have the capacities of this broker; each is put into the rack with the least capacity.
    limit : float
        Largest share of a disk, up to 1.
    survive_rack : bool
        The limit also holds after any one rack is lost and rebuilt on the others.

    Raises
    ------
    ConfigError
        When a disk's capacity is unknown, or no number of brokers is enough.
    """
    losses = [_NOWHERE, *_racks_to_lose(facts, base, like, survive_rack=survive_rack)]
    count = next((n for n in range(MOST_ADDED + 1) if _fits(facts, base, n, like, losses, limit)), None)
    search = Search()
    fullest_of: list[float] = []
    say_estimate(facts, len(losses), f"each number of brokers, {plural(len(losses), 'plan')}")
    while count is not None and count <= MOST_ADDED:
        search.say(f"{plural(count, 'new broker')}, {plural(len(losses), 'plan')}")
        answers = [(loss, answer(facts, _with(facts, base, count, like, loss))) for loss in losses]
        fullest = max(_fullest(item) for _, item in answers)
        if fullest < 100 * limit:
            lost_rack, fullest_answer = max(answers, key=lambda pair: _fullest(pair[1]))
            _, rack = _fill(facts, fullest_answer.question)
            return Need(count, [item for _, item in answers], limit, rack, lost_rack)
        fullest_of += [fullest] if np.isfinite(fullest) else []
        idle = _idle(facts, _with(facts, base, count, like, _NOWHERE))
        if len(fullest_of) > idle and fullest_of[-1] >= fullest_of[-1 - idle]:
            held = human_percent(fullest_of[-1])
            text = f"{plural(count, 'new broker')} like {like} leave the fullest disk at {held}, no less than fewer do"
            remedy = f"ask --add-broker IDS --like {like} --json lists the findings"
            raise ConfigError(f"--disk-below {limit:g}: {text}. Check what may not move: {remedy}")
        count += 1
    raise ConfigError(f"--disk-below {limit:g}: {MOST_ADDED} new brokers like {like} are not enough")


def _racks_to_lose(facts: RunFacts, base: Question, like: int, *, survive_rack: bool) -> tuple[str, ...]:
    """The racks with living brokers, if the limit also holds after a loss. Checks the names first.

    Raises
    ------
    ConfigError
        When the cluster has no such broker, or no racks.
    """
    known = known_of(facts.brokers)
    if like not in known.brokers:
        text = f"--how-many-like {like}: cluster {facts.cluster_id} has no such broker"
        raise ConfigError(f"{text}; known are {list(known.brokers)}")
    if not survive_rack:
        return ()
    if not known.racks:
        raise ConfigError(f"--survive-rack: cluster {facts.cluster_id} has no racks; leave it out")
    brokers = facts_for(facts, base).brokers
    return known_of(brokers[brokers["state"] != "dead"]).racks


def _idle(facts: RunFacts, question: Question) -> int:
    """Numbers of brokers in a row that do not lower the fullest disk: then more do not help either.

    Each rack that accepts replicas gets a broker before that, and one of them a second one.
    """
    _, _, hosts = instance_for(facts, question)
    brokers = to_brokers(hosts)
    open_racks = np.unique(brokers.rack[brokers.accepts_replicas]) if brokers.racks_matter else ()
    wanted = {brokers.rack_names[rack] for rack in open_racks}
    racks = with_racks(facts, question).racks
    return 1 + next((n for n in range(1, len(racks) + 1) if wanted <= {*racks[-n:]}), max(len(racks), 1))


def _fits(facts: RunFacts, base: Question, count: int, like: int, losses: Sequence[str], limit: float) -> bool:
    """Whether sums show no shortage, and the mean load that brokers can reach is below the limit, after each loss."""
    questions = (_with(facts, base, count, like, loss) for loss in losses)
    return all(_fill(facts, question)[0] < limit and not _is_short(facts, question) for question in questions)


def _is_short(facts: RunFacts, question: Question) -> bool:
    settings, instance, hosts = instance_for(facts, question)
    return shortage(instance, hosts, headroom=settings.policy.disk_headroom) is not None


def _with(facts: RunFacts, base: Question, count: int, like: int, lost_rack: str) -> Question:
    """The question with new brokers. Their racks are chosen before the loss, and those in the lost rack are lost."""
    first = int(facts.brokers["broker_id"].max()) + 1
    new = tuple(range(first, first + count))
    more = replace(base, name=f"{count} more", new_brokers=new, like=like if count else None)
    if not lost_rack:
        return more
    racks = dict(zip(new, with_racks(facts, more).racks, strict=True))
    left = tuple(broker for broker in new if racks[broker] != lost_rack)
    return replace(
        more,
        name=f"{count} more, lose rack {lost_rack}",
        new_brokers=left,
        like=like if left else None,
        racks=tuple(racks[broker] for broker in left),
        lost_racks=(*base.lost_racks, lost_rack),
    )


def _fill(facts: RunFacts, question: Question) -> tuple[float, str]:
    """The largest mean share of a disk that balanced brokers reach, and its rack."""
    _, instance, hosts = instance_for(facts, question)
    brokers = to_brokers(hosts)
    capacity = brokers.disk_capacity_bytes
    if (capacity[brokers.accepts_replicas] < 0).any():
        raise ConfigError(_UNKNOWN)
    partitions = to_partitions(instance, brokers.ids)
    loads = broker_loads(len(brokers), partitions.replicas, replica_weights(partitions))
    means = reachable_means(brokers, demand_of(partitions), loads)[:, DISK]
    share = np.where(brokers.accepts_replicas, means / np.maximum(capacity, 1), 0.0)
    fullest = int(share.argmax())
    return float(share[fullest]), brokers.rack_names[brokers.rack[fullest]] if brokers.racks_matter else _NOWHERE


def _fullest(item: Answer) -> float:
    """The fullest disk after the plan, in percent; 0 without bytes, infinite if they do not fit."""
    if not item.plan:
        return float("inf")
    value = item.figures["fullest_disk_percent"][1]
    measured = item.plan.tables["measured"]
    if value is None and measured.loc[measured["placement"] == AFTER, "disk_bytes"].any():
        raise ConfigError(_UNKNOWN)
    return value or 0.0
