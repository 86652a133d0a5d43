"""In which batches brokers may restart: now and after the plan, what blocks, and what no order saves."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from asking.answer import answer
from asking.question import Question, instance_for
from asking.run_facts import RunFacts, captured
from asking.sections import Document, Grid, Section
from optimizer.domain import Bools, Brokers
from optimizer.errors import ConfigError
from optimizer.planning.arrays import to_brokers
from optimizer.planning.exposed import UNKNOWN_MIN_ISR
from optimizer.planning.restart_placement import ALL_REQUIRED, NEVER, NO_SPARE, ONE_REPLICA, SHORT, slows
from optimizer.planning.restarts import AFTER, BEFORE, MINUTES, Restarts, restarts_of
from optimizer.units import (
    SECONDS_PER_MINUTE,
    agree,
    clause,
    first_of,
    human_bytes,
    human_percent,
    human_ratio,
    human_time,
    plural,
)
from optimizer.wording.restart_words import restart_in_words
from sources.quorum import REMEDY, Quorum

_CAUSES = {
    ONE_REPLICA: "one replica",
    ALL_REQUIRED: "min.insync.replicas is the replication factor",
    SHORT: "replicas are out of sync already",
    NO_SPARE: "fewer spare replicas than asked; writes go on",
}
_SHOWN = 3  # topics in a sentence
_WHEN = {BEFORE: "Now", AFTER: "After this plan"}
_NEVER = "never"
_SEARCH = 20.0  # deterministic time


@dataclass(frozen=True)
class Restart:
    """The batches of both placements.

    Parameters
    ----------
    facts, question :
        What was asked.
    spare, most, most_load :
        As for ``restarts_of``.
    restarts : Restarts
    lacks_partitions : bool
        Whether the run may not know all partitions.
    quorum : Quorum or None
        The controllers, if they were given.
    notes : sequence of str
        What else must be known.
    """

    facts: RunFacts
    question: Question
    spare: int
    most: int
    most_load: float
    restarts: Restarts
    lacks_partitions: bool
    quorum: Quorum | None
    notes: Sequence[str]

    def words(self) -> str:
        """One sentence."""
        before, after = self.restarts.found.values()
        batches, least = (len(before.batches), len(after.batches)), (before.bound, after.bound)
        blockers = self._listed(self.blockers) if self.blockers else ""
        return restart_in_words(batches, least, blockers, lacks_partitions=self.lacks_partitions)

    def asked(self) -> str:
        """The question in words."""
        limits = [f"batches of {self.most}"] if self.most else []
        limits += [f"batches with {human_percent(100 * self.most_load)} of the load"] if self.most_load < 1 else []
        spare = [plural(self.spare, "spare replica")] if self.spare else []
        return ", ".join([self.question.words(), *spare, *limits])

    @property
    def blockers(self) -> dict[str, int]:
        """How many partitions of each topic the batches after the plan would stop before it."""
        return self._by_topic(self.restarts.blocks)

    def document(self) -> Document:
        """The sentence, a table of batches for each placement, what no order saves, and notes."""
        run = f"{self.facts.cluster_id}: restart batches, from run {self.facts.run_id}{captured(self.facts)}"
        sections = [Section(f"Batches {when.lower()}", [self._grid(name)]) for name, when in _WHEN.items()]
        losses = [
            f"{when}: {self._listed(topics)}: {_CAUSES[cause]}."
            for name, when in _WHEN.items()
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
            "batch_load": self.most_load if self.most_load < 1 else None,
            "blockers": self.blockers,
            "minutes_down": self.restarts.placements[BEFORE].seconds // SECONDS_PER_MINUTE,
            "placements": {name: self._placement(name) for name in _WHEN},
            "notes": [*self.notes],
        }
        return json.dumps(content)

    def _placement(self, name: str) -> dict[str, Any]:
        found = self.restarts.found[name]
        batches = [
            {key: value for key, value in batch.items() if key not in ("placement", "batch")}
            for batch in self._batches(name)
        ]
        return {
            "proven_minimum": found.bound,
            "is_proven": found.is_proven,
            "pairwise_apart": self.restarts.ids[list(found.clique)].tolist(),
            "batches": batches,
            "not_saved": self._not_saved(name),
        }

    def _batches(self, name: str) -> Iterator[dict[str, Any]]:
        """Facts about each batch; the one of the active controller is the last."""
        active = self.quorum.active if self.quorum else None
        batches = (batch for batch in self.restarts.rows() if batch["placement"] == name)
        for batch in sorted(batches, key=lambda batch: active in batch["brokers"]):
            seconds = batch["in_sync_seconds"]
            voters = {"voters": [b for b in batch["brokers"] if b in self.quorum.voters]} if self.quorum else {}
            yield {**batch, **voters, "in_sync_seconds": _NEVER if seconds == NEVER else seconds}

    def _grid(self, name: str) -> Grid:
        header = ["batch", "brokers", "racks", "partitions then at min ISR", "leaders that move"]
        batches = [*self._batches(name)]
        known = any(batch["missed_bytes"] is not None for batch in batches)
        loads = any(batch["others_load_ratio"] is not None for batch in batches)
        stops = any(batch["partitions_stopped"] for batch in batches)
        rows = []
        for number, batch in enumerate(batches, start=1):
            brokers = [f"{b} (controller)" if b in batch.get("voters", ()) else f"{b}" for b in batch["brokers"]]
            figures = [f"{batch[key]:,}" for key in ("partitions_at_min_isr", "leaders_to_move")]
            figures += [f"{batch['partitions_stopped']:,}"] if stops else []
            figures += [_ratio(batch["others_load_ratio"])] if loads else []
            if known:
                figures += [human_bytes(batch["missed_bytes"]), _in_sync_after(batch["in_sync_seconds"])]
            rows.append([f"{number}", ", ".join(brokers), ", ".join(batch["racks"]), *figures])
        header += [*(["take no writes"] if stops else []), *(["load of the others"] if loads else [])]
        header += ["missed", "in sync after"] if known else []
        return Grid(header, rows, texts=(0, 1, 2))

    def _not_saved(self, name: str) -> dict[str, dict[str, int]]:
        """Partitions by cause and topic."""
        causes = np.array(self.restarts.placements[name].causes())
        return {cause: self._by_topic(causes == cause) for cause in _CAUSES if (causes == cause).any()}

    def _by_topic(self, chosen: Bools) -> dict[str, int]:
        counts = self.restarts.partitions["topic"][chosen].value_counts()
        return dict(sorted(((str(topic), int(n)) for topic, n in counts.items()), key=lambda item: (-item[1], item[0])))

    def _listed(self, topics: Mapping[str, int]) -> str:
        more = [plural(len(topics) - _SHOWN, "other")] if len(topics) > _SHOWN else []
        names = ", ".join([*[*topics][:_SHOWN], *more])
        return f"{plural(sum(topics.values()), 'partition')} of {agree(len(topics), 'topic', 'topics')} {names}"


def restart(
    facts: RunFacts,
    question: Question,
    *,
    spare: int = 0,
    most: int = 0,
    most_load: float = 1.0,
    minutes: int = MINUTES,
    quorum: Quorum | None = None,
    throttles: Iterable[Mapping[str, Any]] = (),
    lacks_partitions: bool = False,
    anyway: bool = False,
) -> Restart:
    """The fewest restart batches before and after the plan of a question.

    Parameters
    ----------
    spare, most, most_load, minutes :
        As for ``restarts_of``.
    quorum : Quorum, optional
        Voters that are brokers too are in different batches.
    throttles : iterable of mapping
        Rows of ``throttles_found``.
    lacks_partitions :
        As for ``Restart``.
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
    restarts = restarts_of(
        planned.plan.tables["compared"],
        hosts,
        spare=spare,
        most=most,
        most_load=most_load,
        minutes=minutes,
        voters=quorum.voters if quorum else (),
        throttles=throttles,
        deterministic_time=_SEARCH,
    )
    brokers, now = to_brokers(hosts), restarts.placements[BEFORE]
    unknown = brokers.ids[now.may_restart & np.isnan(now.limit) & now.received.any()]
    notes = [
        *_notes(instance, brokers),
        *_pace_notes(unknown, throttles),
        *_quorum_notes(quorum, brokers, now.may_restart),
    ]
    return Restart(facts, question, spare, most, most_load, restarts, lacks_partitions, quorum, notes)


def _notes(instance: pd.DataFrame, brokers: Brokers) -> Iterator[str]:
    for chosen, why in ((brokers.must_empty & brokers.is_live, "to be emptied"), (~brokers.is_live, "not alive")):
        if chosen.any():
            yield f"Left out, {why}: {', '.join(map(str, brokers.ids[chosen]))}."
    if unknown := int(instance["min_insync_replicas"].isna().sum()):
        yield f"min.insync.replicas of {plural(unknown, 'partition')} is unknown: {UNKNOWN_MIN_ISR} is assumed."
    if moving := int(instance["controller_replicas"].notna().sum()):
        yield f"{clause(moving, 'partition', 'is', 'are')} being reassigned: ask again when that is done."
    yield "After each batch wait until all replicas are in sync, then elect preferred leaders."


def _ratio(value: float | None) -> str:
    return "unknown" if value is None else human_ratio(value)


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
