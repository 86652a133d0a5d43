"""The command ``judge``: another tool's plan, measured and compared with Ballast's plans for the same cluster."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from asking.answer import LEAVING
from asking.answer_text import NOW, PLANNED, Column, split_table, table
from asking.ask import asked_facts, figures_as_json, stored_figures
from asking.judge.belongs import check_belongs
from asking.judge.broken_rules import BrokenRule, broken_rules, full_directories, lines_about
from asking.judge.inside import moves_inside
from asking.judge.phases import SHOWN_PHASES, about_phases, after, peak, summed
from asking.judge.read_plan import read_plans
from asking.judge.their_plan import NamedPartition, TheirPlan
from asking.question import Question, instance_for
from asking.run_facts import RunFacts
from asking.sections import Document, Section, text_lines, write_page
from optimizer.domain import NOT_LIVE, Floats
from optimizer.emit.figure_table import left_undone
from optimizer.kafka.reassignment_json import ANY_DIR, TopicPartition
from optimizer.planning.alternatives import NO_LIMITS
from optimizer.planning.arrays import log_dirs_of, replica_matrix, to_brokers, to_partitions
from optimizer.planning.in_memory import Tables, plan_in_memory, planned_tables, records
from optimizer.planning.plan_figures import Figures, figures_of
from optimizer.solve.rounds.solved_cluster import SolvedCluster
from optimizer.solve.rules.bands import broker_loads, is_outside, replica_weights
from optimizer.units import agree, human_bytes, human_ratio, plural
from stored.tables import Warehouse

THEIRS, OURS, EQUAL = "theirs", "Ballast's", "Ballast at their balance"
_KEY = ["topic", "partition"]
_ALL_TOPICS: Mapping[str, Sequence[str]] = {"topics": [], "exclude_topics": []}


@dataclass(frozen=True)
class Judgement:
    """A plan of another tool, measured.

    Parameters
    ----------
    theirs, ours, equal : mapping
        Figures of their plan; of the run's plan; and of the plan that copies least among those that are as balanced
        as theirs, at their replication factors.
    violations : sequence of BrokenRule
    notes : sequence of str
        What a reader must know about their plan.
    is_as_balanced : bool
        Whether the plan at their balance is as balanced as theirs.
    phases : sequence of (name, figures)
        If their plan has several; ``theirs`` is their sum.
    """

    theirs: Figures
    ours: Figures
    equal: Figures
    violations: Sequence[BrokenRule]
    notes: Sequence[str]
    is_as_balanced: bool = True
    phases: Sequence[tuple[str, Figures]] = ()

    @property
    def times_least(self) -> float | None:
        """Their bytes over the least for their balance; None if the plans are not comparable, or copy nothing."""
        theirs, least = (figures["moved_bytes"][1] for figures in (self.theirs, self.equal))
        return theirs / least if theirs and least and self.is_as_balanced and not self._undone() else None

    def verdict(self) -> str:
        """How their bytes compare with the least for their balance, or why they do not."""
        if undone := self._undone():
            return f"Their plan leaves {undone}, so the bytes cannot be compared."
        if not self.is_as_balanced:
            return f"{EQUAL} is less balanced than their plan, so the bytes cannot be compared."
        ratio, inside = self.times_least, self.theirs.get("dir_moved_bytes", (None, None))[1]
        if inside and not self.theirs["moved_bytes"][1]:
            return f"Their plan copies nothing between brokers; it moves {human_bytes(inside)} inside brokers."
        if ratio is None:
            return "One of the plans copies nothing, so there is no ratio."
        return f"Their plan copies {human_ratio(ratio)} what Ballast needs for a plan that is as balanced."

    def _undone(self) -> str:
        """What their plan leaves and Ballast does not: it copies less for a worse result. Or the other way round."""
        names = (LEAVING, "rack_violations")
        theirs, ours = ([figures.get(x, (None, None))[1] or 0 for x in names] for figures in (self.theirs, self.equal))
        more = {name: count - less for name, count, less in zip(names, theirs, ours, strict=True)}
        fewer = "less undone than Ballast at their balance" if min(more.values()) < 0 else ""
        return left_undone(more, "more ") or fewer


def judge(options: argparse.Namespace, warehouse: Warehouse) -> Iterator[str]:
    """Lines of the judgement.

    Raises
    ------
    ConfigError
        When the plan cannot be read, or names what the cluster does not have.
    Refused
        When the run has no plan, or the plan was made for another state of the cluster.
    """
    phases = read_plans(options.plan)
    facts = asked_facts(options, warehouse)
    judgement = judged(facts, phases, stored_figures(warehouse, facts), stale_ok=options.stale_ok)
    document = document_of(facts, judgement)
    if options.html:
        write_page(options.html, document)
    if options.json:
        yield _as_json(facts, judgement)
    else:
        yield from text_lines(document)


def judged(facts: RunFacts, phases: Sequence[TheirPlan], ours: Figures, *, stale_ok: bool = False) -> Judgement:
    """Measure a plan of another tool.

    Parameters
    ----------
    phases : sequence of TheirPlan
        Executed one after the other: each changes what the phases before have left.
    ours : mapping
        Figures of the run's plan.
    stale_ok : bool
        Also judge a plan that was made for other replica lists.
    """
    state, measured = facts, list[_Phase]()
    for number, phase in enumerate(phases):
        label = f"the state after phase {number}" if number else "the run"
        measured.append(_measured(state, phase, label, stale_ok=stale_ok))
        if number + 1 < len(phases):
            state = after(state, phase, measured[-1].tables)
    settings, instance, hosts = instance_for(facts, Question())
    proposal = _proposal({key: named for phase in phases for key, named in phase.partitions.items()}, instance)
    changed = measured[0].changed
    if len(phases) > 1:
        net = planned_tables(instance, hosts, _as_solved(proposal), settings, moves_inside=False)
        changed = _changed(net)
    question, lifted = _compared_question(facts, changed)
    unlimited, may_change, hosts = instance_for(facts, question)
    at_their_factors, loads = _reached(may_change, hosts, proposal)
    equal = plan_in_memory(
        at_their_factors,
        hosts,
        unlimited,
        captured_at=facts.captured_at,
        also_allowed=loads,
        moves_inside=False,
        started=True,
    )
    figures = [phase.figures for phase in measured]
    named = [*zip((phase.name for phase in phases), figures, strict=True)] if len(phases) > 1 else []
    return Judgement(
        theirs=summed(figures),
        ours=ours,
        equal=figures_of(equal.tables, hosts),
        violations=[*_of_phases(measured)],
        notes=(*about_phases(named), *dict.fromkeys(note for phase in measured for note in phase.notes), *lifted),
        is_as_balanced=_is_as_balanced(equal.solved.clusters[facts.cluster_id]),
        phases=named,
    )


@dataclass(frozen=True)
class _Phase:
    """A phase of their plan, measured.

    Parameters
    ----------
    changed : DataFrame
        Rows of ``compare_lists`` that it changes.
    tables : mapping
        As from ``planned_tables``.
    """

    figures: Figures
    changed: pd.DataFrame
    violations: Sequence[BrokenRule]
    notes: Sequence[str]
    tables: Tables


def _measured(facts: RunFacts, phase: TheirPlan, state: str, *, stale_ok: bool) -> _Phase:
    """Measure a phase against the facts that it starts from."""
    settings, instance, hosts = instance_for(facts, Question())
    live = hosts.loc[~hosts["state"].isin(NOT_LIVE), "broker_id"]
    log_dirs = dict(zip(sorted(hosts["broker_id"]), log_dirs_of(hosts), strict=True))
    log_dirs = {int(broker): dirs for broker, dirs in log_dirs.items() if dirs}
    belonging = check_belongs(
        phase,
        instance,
        broker_ids=set(hosts["broker_id"]),
        live_broker_ids=set(live),
        log_dirs=log_dirs,
        stale_ok=stale_ok,
        state=state,
    )
    proposal = _proposal(phase.partitions, instance)
    inside, unknown = moves_inside(phase, instance, log_dirs)
    tables = planned_tables(
        *(instance, hosts, _as_solved(proposal), settings),
        captured_at=facts.captured_at,
        moves_inside=False,
        given_inside=inside,
    )
    changed = _changed(tables)
    balance = records(tables["dir_balance"]) if "planned_log_dirs" in proposal or len(inside) else []
    return _Phase(
        figures_of(tables, hosts),
        changed,
        [*broken_rules(instance, hosts, changed, settings), *full_directories(balance)],
        [*belonging.notes, *unknown, *_about_unplaced(changed)],
        tables,
    )


def _changed(tables: Tables) -> pd.DataFrame:
    return tables["compared"][tables["compared"]["is_changed"]].sort_values(_KEY, kind="stable")


def _of_phases(measured: Sequence[_Phase]) -> Iterator[BrokenRule]:
    """The rules that each phase breaks."""
    for number, phase in enumerate(measured, start=1):
        prefix = f"Phase {number}: " if len(measured) > 1 else ""
        yield from (replace(each, text=f"{prefix}{each.text}") for each in phase.violations)


def _compared_question(facts: RunFacts, changed: pd.DataFrame) -> tuple[Question, Sequence[str]]:
    """The question for the plan at their balance, and a sentence about what it lifts.

    It has no limits. It lifts ``only`` of the run, and its choice of topics, if their plan then breaks fewer rules:
    the plan at their balance must be able to do what theirs does.

    Parameters
    ----------
    changed : DataFrame
        Rows of ``compare_lists`` that their plan changes.
    """
    choices = {"": Question(knobs={"policy": NO_LIMITS})}
    if not _is_restricted(facts):
        return choices[""], []
    choices |= {
        "only": Question(only="", knobs={"policy": NO_LIMITS}),
        "only, topics and exclude_topics": Question(only="", knobs={"policy": {**NO_LIMITS, **_ALL_TOPICS}}),
    }
    broken = {lifted: _violations(facts, question, changed) for lifted, question in choices.items()}
    lifted = min(broken, key=lambda name: broken[name])
    text = f"Their plan changes what the run leaves out, so {EQUAL} is planned without the run's {lifted}."
    return choices[lifted], [text] if lifted else []


def _is_restricted(facts: RunFacts) -> bool:
    """Whether the run plans for one request only, or not all topics."""
    [requests] = facts.settings.cluster_policies().values()
    policy = facts.settings.policy
    return bool(requests.only or policy.topics or policy.exclude_topics)


def _violations(facts: RunFacts, question: Question, changed: pd.DataFrame) -> int:
    """How often their plan breaks rules, if the run requests what the question does."""
    settings, instance, hosts = instance_for(facts, question)
    return len(broken_rules(instance, hosts, changed, settings))


def _is_as_balanced(cluster: SolvedCluster) -> bool:
    """Whether the brokers that stay are inside the bands, which include the loads of their plan."""
    outside = is_outside(cluster.loads, cluster.bands)
    return not outside[~cluster.brokers.must_empty].any()


def _proposal(partitions: Mapping[TopicPartition, NamedPartition], instance: pd.DataFrame) -> pd.DataFrame:
    """The partitions whose list their plan changes; with directories, if it names any."""
    lists = [partitions.get(key) for key in zip(instance["topic"], instance["partition"], strict=True)]
    rows = [
        (topic, partition, list(named.replicas), named.log_dirs)
        for topic, partition, now, named in zip(*(instance[x] for x in (*_KEY, "replicas")), lists, strict=True)
        if named is not None and list(named.replicas) != [int(b) for b in now]
    ]
    proposal = pd.DataFrame(rows, columns=[*_KEY, "replicas", "planned_log_dirs"])
    proposal = proposal.astype({"partition": instance["partition"].dtype})
    names_any = any(path != ANY_DIR for dirs in proposal["planned_log_dirs"] for path in dirs or ())
    return proposal if names_any else proposal.drop(columns="planned_log_dirs")


def _as_solved(proposal: pd.DataFrame) -> Tables:
    """Their proposal as the tables of stage solve: every change is for balance, and nothing is proven."""
    columns = {"bounds": ["is_best"], "leader_bounds": ["measure"], "findings": ["code"]}
    empty = {name: pd.DataFrame(columns=names) for name, names in columns.items()}
    return {**empty, "proposal": proposal, "moves": proposal[_KEY].assign(reason="balance")}


def _reached(instance: pd.DataFrame, hosts: pd.DataFrame, proposal: pd.DataFrame) -> tuple[pd.DataFrame, Floats]:
    """The cluster with their replication factors, and the loads of their plan, (B, D)."""
    rows = instance.merge(proposal.rename(columns={"replicas": "their_list"}), on=_KEY, how="left")
    lists = rows["their_list"].where(rows["their_list"].notna(), rows["replicas"])
    is_free = rows["mobility"] == "free"
    factor = np.where(is_free, lists.map(len), rows["replication_factor"]).astype(np.int64)
    resized = rows.drop(columns="their_list").assign(replication_factor=factor)
    brokers = to_brokers(hosts)
    ordered = resized.assign(final=lists).sort_values(_KEY, kind="stable")
    final = replica_matrix(ordered["final"], brokers.ids)
    weights = replica_weights(to_partitions(resized, brokers.ids))
    return resized, broker_loads(len(brokers), final, weights)


def _about_unplaced(changed: pd.DataFrame) -> Iterator[str]:
    """A sentence about the partitions for which no wave has disk space."""
    unplaced = changed[changed["wave"].isna()]
    if len(unplaced):
        count, copied = len(unplaced), human_bytes(unplaced["moved_bytes"].sum())
        fits, them = agree(count, "fits", "fit"), agree(count, "it", "them")
        yield (
            f"{plural(count, 'partition')}, {copied}, {fits} into no wave, because disks would be over their limit: "
            f"waves and times are without {them}."
        )


def document_of(facts: RunFacts, judgement: Judgement) -> Document:
    """The judgement, the table, and what is wrong with their plan."""
    columns = (
        Column("now", judgement.ours, NOW),
        Column(THEIRS, judgement.theirs, PLANNED),
        Column(OURS, judgement.ours, PLANNED),
        Column(EQUAL, judgement.equal, PLANNED),
    )
    run = f"{facts.cluster_id}: another plan for the cluster of run {facts.run_id}"
    differing, same = split_table(columns)
    lines = [*judgement.notes, *lines_about(judgement.violations)]
    shown = [figures for _, figures in judgement.phases]
    each = [Column(f"phase {n}", figures, PLANNED) for n, figures in enumerate(shown[:SHOWN_PHASES], start=1)]
    sections = [
        Section("What differs", differing),
        Section("Phases", [table([*each, Column("peak", peak(shown), PLANNED)])] if shown else []),
        Section("Remarks", lines),
        Section("Other figures", same),
    ]
    return Document(judgement.verdict(), [run], [section for section in sections if section.parts])


def _as_json(facts: RunFacts, judgement: Judgement) -> str:
    plans = {"theirs": judgement.theirs, "ours": judgement.ours, "ours_at_their_balance": judgement.equal}
    content = {name: figures_as_json(figures) for name, figures in plans.items()}
    key = {"cluster_id": facts.cluster_id, "run_id": facts.run_id, "verdict": judgement.verdict()}
    ratio: dict[str, Any] = {"times_least": judgement.times_least}
    phases = [{"name": name, "figures": figures_as_json(figures)} for name, figures in judgement.phases]
    ratio |= {"phases": phases} if phases else {}
    texts = {"notes": list(judgement.notes), "violations": [vars(each) for each in judgement.violations]}
    return json.dumps({**key, **ratio, **content, **texts})
