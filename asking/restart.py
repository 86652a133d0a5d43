"""In which batches brokers may restart: now and after the plan, what blocks, and what no order saves."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from asking.answer import answer
from asking.question import Question, instance_for
from asking.restart_placement import ALL_REQUIRED, NO_SPARE, ONE_REPLICA, SHORT, Placement, limits, placement_of, slows
from asking.run_facts import RunFacts, captured
from asking.sections import Document, Grid, Section
from optimizer.domain import Bools, Brokers, Ints
from optimizer.errors import ConfigError
from optimizer.planning.arrays import to_brokers
from optimizer.planning.exposed import UNKNOWN_MIN_ISR
from optimizer.solve.restart_batches import Batches, fewest_batches
from optimizer.units import SECONDS_PER_MINUTE, agree, clause, first_of, human_bytes, human_time, plural
from sources.quorum import REMEDY, Quorum

_CAUSES = {
    ONE_REPLICA: "one replica",
    ALL_REQUIRED: "min.insync.replicas is the replication factor",
    SHORT: "replicas are out of sync already",
    NO_SPARE: "fewer spare replicas than asked; writes go on",
}
_SHOWN = 3  # topics in a sentence
MINUTES = 5  # that a broker is down, unless the question says how long


@dataclass(frozen=True)
class Restart:
    """The batches of both placements.

    Parameters
    ----------
    facts, question :
        What was asked.
    spare, most : int
        As for ``restart``.
    topics : sequence of str
        The topic of each partition.
    placements, found : mapping
        By name: now, and after the plan.
    racks : sequence of str
        The rack of each broker; "" without one.
    quorum : Quorum or None
        The controllers, if they were given.
    notes : sequence of str
        What else must be known.
    """

    facts: RunFacts
    question: Question
    spare: int
    most: int
    topics: Sequence[str]
    ids: Ints
    racks: Sequence[str]
    quorum: Quorum | None
    placements: Mapping[str, Placement]
    found: Mapping[str, Batches]
    notes: Sequence[str]

    def words(self) -> str:
        """One sentence."""
        now, after = (f"{len(found.batches)}" for found in self.found.values())
        proofs = [
            "proven fewest" if f.is_proven else f"the best found, {f.bound} or more are needed"
            for f in self.found.values()
        ]
        text = f"Restart in {now} {agree(int(now), 'batch', 'batches')} now ({proofs[0]}), in {after} after this plan"
        blocks = f"; what blocks: {self._listed(self.blockers)}" if self.blockers else ""
        return f"{text} ({proofs[1]}){blocks}."

    def asked(self) -> str:
        """The question in words."""
        spare = [plural(self.spare, "spare replica")] if self.spare else []
        return ", ".join([self.question.words(), *spare, *([f"batches of {self.most}"] if self.most else [])])

    @property
    def blockers(self) -> dict[str, int]:
        """Partitions by topic that the batches after the plan would stop now; empty if the plan saves no batch."""
        now, after = self.found["now"], self.found["after"]
        if len(after.batches) >= len(now.batches):
            return {}
        return self._by_topic(self.placements["now"].blocks(after.batches))

    def document(self) -> Document:
        """The sentence, a table of batches for each placement, what no order saves, and notes."""
        run = f"{self.facts.cluster_id}: restart batches, from run {self.facts.run_id}{captured(self.facts)}"
        titles = {"now": "Batches now", "after": "Batches after this plan"}
        sections = [Section(titles[name], [self._grid(name)]) for name in self.found]
        losses = [
            f"{'Now' if name == 'now' else 'After this plan'}: {self._listed(topics)}: {_CAUSES[cause]}."
            for name in self.found
            for cause, topics in self._not_saved(name).items()
        ]
        sections += [Section("What no order saves", losses), Section("Remarks", self.notes)]
        head = [run, f"Asked: {self.asked()}."]
        return Document(self.words(), head, [section for section in sections if section.parts])

    def as_json(self) -> str:
        """One line with all of it."""
        content = {
            "cluster_id": self.facts.cluster_id,
            "run_id": self.facts.run_id,
            "captured_at": self.facts.captured_at.isoformat() if self.facts.captured_at else None,
            "headline": self.words(),
            "asked": self.asked(),
            "spare": self.spare,
            "batches_of": self.most or None,
            "blockers": self.blockers,
            "minutes_down": self.placements["now"].seconds // SECONDS_PER_MINUTE,
            "placements": {name: self._placement(name) for name in self.found},
            "notes": [*self.notes],
        }
        return json.dumps(content)

    def _placement(self, name: str) -> dict[str, Any]:
        found = self.found[name]
        return {
            "proven_minimum": found.bound,
            "is_proven": found.is_proven,
            "pairwise_apart": self._ids(found.clique),
            "batches": [*self._batches(name)],
            "not_saved": self._not_saved(name),
        }

    def _batches(self, name: str) -> Iterator[dict[str, Any]]:
        """Facts about each batch; the one of the active controller is the last."""
        active = self.quorum.active if self.quorum else None
        for batch in sorted(self.found[name].batches, key=lambda batch: active in self._ids(batch)):
            ids, racks = self._ids(batch), sorted({self.racks[b] for b in batch if self.racks[b]})
            voters = {"voters": [b for b in ids if b in self.quorum.voters]} if self.quorum else {}
            yield {"brokers": ids, "racks": racks, **voters, **self.placements[name].effects(batch)}

    def _grid(self, name: str) -> Grid:
        header = ["batch", "brokers", "racks", "partitions then at min ISR", "leaders that move"]
        known, batches = self.placements[name].received.any(), [*self._batches(name)]
        stops = any(batch["partitions_stopped"] for batch in batches)
        rows = []
        for number, batch in enumerate(batches, start=1):
            brokers = [f"{b} (controller)" if b in batch.get("voters", ()) else f"{b}" for b in batch["brokers"]]
            figures = [f"{batch[key]:,}" for key in ("partitions_at_min_isr", "leaders_to_move")]
            figures += [f"{batch['partitions_stopped']:,}"] if stops else []
            if known:
                figures += [human_bytes(batch["missed_bytes"]), _in_sync_after(batch["in_sync_seconds"])]
            rows.append([f"{number}", ", ".join(brokers), ", ".join(batch["racks"]), *figures])
        header += [*(["take no writes"] if stops else []), *(["missed", "in sync after"] if known else [])]
        return Grid(header, rows, texts=(0, 1, 2))

    def _not_saved(self, name: str) -> dict[str, dict[str, int]]:
        """Partitions by cause and topic."""
        causes = np.array(self.placements[name].causes())
        return {cause: self._by_topic(causes == cause) for cause in _CAUSES if (causes == cause).any()}

    def _by_topic(self, chosen: Bools) -> dict[str, int]:
        names, counts = np.unique(np.array(self.topics)[chosen], return_counts=True)
        return dict(sorted(zip(names.tolist(), counts.tolist(), strict=True), key=lambda item: (-item[1], item[0])))

    def _listed(self, topics: Mapping[str, int]) -> str:
        more = [plural(len(topics) - _SHOWN, "other")] if len(topics) > _SHOWN else []
        names = ", ".join([*[*topics][:_SHOWN], *more])
        return f"{plural(sum(topics.values()), 'partition')} of {agree(len(topics), 'topic', 'topics')} {names}"

    def _ids(self, brokers: Sequence[int]) -> list[int]:
        return self.ids[list(brokers)].tolist()


def restart(
    facts: RunFacts,
    question: Question,
    *,
    spare: int = 0,
    most: int = 0,
    minutes: int = MINUTES,
    quorum: Quorum | None = None,
    throttles: Iterable[Mapping[str, Any]] = (),
    anyway: bool = False,
) -> Restart:
    """The fewest restart batches before and after the plan of a question.

    Parameters
    ----------
    spare : int
        Replicas above min.insync.replicas that stay up where there are so many.
    most : int
        The most brokers in a batch; 0: any number.
    minutes : int
        How long a broker is down.
    quorum : Quorum, optional
        Voters that are brokers too are in different batches.
    throttles : iterable of mapping
        Rows of ``throttles_found``.
    anyway : bool
        As for ``answer``.

    Raises
    ------
    ConfigError
        As ``answer``, and when the bytes of the question do not fit.
    """
    planned = answer(facts, question, anyway=anyway)
    if planned.plan is None:
        raise ConfigError(f"--restart: {question.words()} does not fit, so there is no plan: add --anyway")
    _, instance, hosts = instance_for(facts, question)
    brokers, hosts = to_brokers(hosts), hosts.sort_values("broker_id")
    rows = planned.plan.tables["compared"].sort_values(["topic", "partition"])
    may_restart = brokers.is_live & ~brokers.must_empty
    limit = limits(hosts, throttles)
    placements = {
        name: placement_of(
            rows, brokers, name, may_restart=may_restart, spare=spare, limit=limit, seconds=minutes * SECONDS_PER_MINUTE
        )
        for name in ("now", "after")
    }
    groups = brokers.rack if brokers.racks_matter else None
    voters = np.flatnonzero(np.isin(brokers.ids, quorum.voters if quorum else ()))
    found = {
        name: fewest_batches(each.in_sync, each.may_be_down, may_restart, apart=voters, most=most, groups=groups)
        for name, each in placements.items()
    }
    racks = [rack if isinstance(rack, str) else "" for rack in hosts["rack"]]
    unknown = brokers.ids[may_restart & np.isnan(limit) & placements["now"].received.any()]
    notes = [*_notes(instance, brokers), *_pace_notes(unknown, throttles), *_quorum_notes(quorum, brokers, may_restart)]
    topics = rows["topic"].tolist()
    return Restart(facts, question, spare, most, topics, brokers.ids, racks, quorum, placements, found, notes)


def _notes(instance: pd.DataFrame, brokers: Brokers) -> Iterator[str]:
    for chosen, why in ((brokers.must_empty & brokers.is_live, "to be emptied"), (~brokers.is_live, "not alive")):
        if chosen.any():
            yield f"Left out, {why}: {', '.join(map(str, brokers.ids[chosen]))}."
    if unknown := int(instance["min_insync_replicas"].isna().sum()):
        yield f"min.insync.replicas of {plural(unknown, 'partition')} is unknown: {UNKNOWN_MIN_ISR} is assumed."
    if moving := int(instance["controller_replicas"].notna().sum()):
        yield f"{clause(moving, 'partition', 'is', 'are')} being reassigned: ask again when that is done."
    yield "After each batch wait until all replicas are in sync, then elect preferred leaders."


def _in_sync_after(seconds: int | str | None) -> str:
    if seconds is None:
        return "unknown"
    return seconds if isinstance(seconds, str) else human_time(seconds)


def _pace_notes(unknown: Iterable[int], throttles: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    if any(slows(row) for row in throttles):
        yield "Replication throttles are set: they may also slow what restarted brokers missed. Remove them first."
    if names := [str(broker) for broker in unknown]:
        which = f"{agree(len(names), 'broker', 'brokers')} {first_of(names, _SHOWN)}"
        yield f"How fast {which} can receive is unknown: add a capacity file (docs/formats.md), and plan again."


def _quorum_notes(quorum: Quorum | None, brokers: Brokers, may_restart: Bools) -> Iterator[str]:
    if quorum is None:
        yield f"Controllers are not considered. If brokers are controllers too, {REMEDY} as --quorum FILE."
        return
    restarting = brokers.ids[may_restart].tolist()
    down = set(brokers.ids[~brokers.is_live].tolist()) & set(quorum.voters)
    others = [str(voter) for voter in quorum.voters if voter not in restarting and voter not in down]
    up, count = len(quorum.voters) - len(down), len(quorum.voters)
    if up - 1 <= count // 2:
        yield f"{up} of {count} voters of the controllers are up: without one more they elect no leaders."
    if len(others) < up:
        last = ", the active one in the last" if quorum.active in restarting else ""
        yield f"At most one voter of the controllers in a batch{last}."
    if others:
        yield f"Voters in no batch: {first_of(others, _SHOWN)}. Restart them one at a time, the active one last."
