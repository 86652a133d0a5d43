"""In which batches brokers may restart: now and after the plan, what blocks, and what no order saves."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from asking.answer import answer
from asking.question import Question, instance_for
from asking.run_facts import RunFacts
from asking.sections import Document, Grid, Section
from optimizer.domain import Bools, Brokers, Ints
from optimizer.errors import ConfigError
from optimizer.planning.arrays import replica_matrix, to_brokers
from optimizer.planning.exposed import UNKNOWN_MIN_ISR
from optimizer.solve.restart_batches import Batches, fewest_batches
from optimizer.units import agree, clause, plural

# Why a partition takes no writes, or keeps no spare replica, in any order.
ONE_REPLICA, ALL_REQUIRED, SHORT, NO_SPARE = "one_replica", "min_isr_is_factor", "already_short", "no_spare"
_CAUSES = {
    ONE_REPLICA: "one replica",
    ALL_REQUIRED: "min.insync.replicas is the replication factor",
    SHORT: "replicas are out of sync already",
    NO_SPARE: "no spare replica above min.insync.replicas",
}
_SHOWN = 3  # topics in a sentence


@dataclass(frozen=True)
class Placement:
    """Replicas of all partitions, and the batches that they allow.

    Parameters
    ----------
    in_sync : (P, W) int64
        Broker indices, -1 pads.
    leader, min_isr, factor : (P,) int64
        The leader as an index, -1 without one.
    may_restart : (B,) bool
    spare : int
        Replicas above min.insync.replicas that stay up where there are so many.
    """

    in_sync: Ints
    leader: Ints
    min_isr: Ints
    factor: Ints
    may_restart: Bools
    spare: int

    @property
    def slack(self) -> Ints:
        """How many in-sync replicas may be down together, (P,); a spare never makes it less than 1."""
        slack = (self.in_sync >= 0).sum(axis=1) - self.min_isr
        return np.where(slack > 0, np.maximum(slack - self.spare, 1), slack)

    def down(self, batch: Sequence[int]) -> Ints:
        """How many in-sync replicas of each partition are in a batch, (P,)."""
        return np.asarray(((self.in_sync >= 0) & np.isin(self.in_sync, batch)).sum(axis=1))

    def effects(self, batch: Sequence[int]) -> dict[str, int]:
        """Partitions that stand at min.insync.replicas or below it while a batch is down, and leaders that move."""
        down = self.down(batch)
        left = (self.in_sync >= 0).sum(axis=1) - down
        return {
            "partitions_at_min_isr": int(((down > 0) & (left == self.min_isr)).sum()),
            "partitions_stopped": int(((down > 0) & (left < self.min_isr)).sum()),
            "leaders_to_move": int((np.isin(self.leader, batch) & (left > 0)).sum()),
        }

    def blocks(self, batches: Sequence[Sequence[int]]) -> Bools:
        """Partitions that these batches would bring below min.insync.replicas, or cost their spare, (P,)."""
        slack = self.slack
        worst = np.max([self.down(batch) for batch in batches], axis=0, initial=0)
        return np.asarray((slack > 0) & (worst > slack))

    def causes(self) -> list[str]:
        """Why no order saves each partition; "" if one does, or if none of its brokers restarts."""
        count = (self.in_sync >= 0).sum(axis=1)
        slack, restarts = count - self.min_isr, self.down(np.flatnonzero(self.may_restart).tolist()) > 0
        conditions = [~restarts | (slack > self.spare), slack > 0, self.factor == 1, self.min_isr >= self.factor]
        return np.select(conditions, ["", NO_SPARE, ONE_REPLICA, ALL_REQUIRED], SHORT).tolist()


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
    placements: Mapping[str, Placement]
    found: Mapping[str, Batches]
    notes: Sequence[str]

    def words(self) -> str:
        """One sentence."""
        now, after = (f"{len(found.batches)}" for found in self.found.values())
        proofs = ["proven fewest" if f.is_proven else f"at least {f.bound}" for f in self.found.values()]
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
        run = f"{self.facts.cluster_id}: restart batches, from run {self.facts.run_id}"
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
            "headline": self.words(),
            "asked": self.asked(),
            "spare": self.spare,
            "batches_of": self.most or None,
            "blockers": self.blockers,
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
        for batch in self.found[name].batches:
            racks = sorted({self.racks[b] for b in batch if self.racks[b]})
            yield {"brokers": self._ids(batch), "racks": racks, **self.placements[name].effects(batch)}

    def _grid(self, name: str) -> Grid:
        header = ("batch", "brokers", "racks", "partitions then at min ISR", "leaders that move")
        rows = [
            (
                *(f"{number}", ", ".join(map(str, batch["brokers"])), ", ".join(batch["racks"])),
                *(f"{batch[key]:,}" for key in ("partitions_at_min_isr", "leaders_to_move")),
            )
            for number, batch in enumerate(self._batches(name), start=1)
        ]
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


def restart(facts: RunFacts, question: Question, *, spare: int = 0, most: int = 0, anyway: bool = False) -> Restart:
    """The fewest restart batches before and after the plan of a question.

    Parameters
    ----------
    spare : int
        Replicas above min.insync.replicas that stay up where there are so many.
    most : int
        The most brokers in a batch; 0: any number.
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
    rows = planned.plan.tables["compared"].sort_values(["topic", "partition"]).reset_index(drop=True)
    may_restart = brokers.is_live & ~brokers.must_empty
    placements = {name: _placement_of(rows, brokers, may_restart, spare, name) for name in ("now", "after")}
    groups = brokers.rack if brokers.racks_matter else None
    found = {
        name: fewest_batches(each.in_sync, each.slack, may_restart, most=most, groups=groups)
        for name, each in placements.items()
    }
    racks = [rack if isinstance(rack, str) else "" for rack in hosts["rack"]]
    notes = [*_notes(instance, brokers)]
    return Restart(facts, question, spare, most, rows["topic"].tolist(), brokers.ids, racks, placements, found, notes)


def _placement_of(rows: pd.DataFrame, brokers: Brokers, may_restart: Bools, spare: int, name: str) -> Placement:
    """Now: the live ISR and leaders. After the plan: all proposed replicas on living brokers, the first one leads."""
    is_now = name == "now"
    watching = [set(ids) if np.ndim(ids) else set() for ids in rows["observers"]]
    proposed = [
        [b for b in ids if b not in seen] for ids, seen in zip(rows["proposed_replicas"], watching, strict=True)
    ]
    in_sync = replica_matrix(rows["isr"] if is_now else pd.Series(proposed, dtype=object), brokers.ids)
    in_sync = np.where((in_sync >= 0) & brokers.is_live[in_sync], in_sync, -1)
    known = rows["leader"].to_numpy(dtype="float64", na_value=-1.0).astype(np.int64)
    leader = np.where(known >= 0, np.searchsorted(brokers.ids, known), -1)
    if not is_now:
        leader = np.take_along_axis(in_sync, (in_sync >= 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    return Placement(
        in_sync=in_sync,
        leader=leader,
        min_isr=rows["min_insync_replicas"].to_numpy("float64", na_value=float(UNKNOWN_MIN_ISR)).astype(np.int64),
        factor=np.array([*map(len, rows["current_replicas" if is_now else "proposed_replicas"])], dtype=np.int64),
        may_restart=may_restart,
        spare=spare,
    )


def _notes(instance: pd.DataFrame, brokers: Brokers) -> Iterator[str]:
    for chosen, why in ((brokers.must_empty & brokers.is_live, "to be emptied"), (~brokers.is_live, "not alive")):
        if chosen.any():
            yield f"Left out, {why}: {', '.join(map(str, brokers.ids[chosen]))}."
    if unknown := int(instance["min_insync_replicas"].isna().sum()):
        yield f"min.insync.replicas of {plural(unknown, 'partition')} is unknown: {UNKNOWN_MIN_ISR} is assumed."
    if moving := int(instance["controller_replicas"].notna().sum()):
        yield f"{clause(moving, 'partition', 'is', 'are')} being reassigned: ask again when that is done."
    yield "After each batch wait until all replicas are in sync, then elect preferred leaders."
    yield "Controllers are not checked: restart them one at a time."
