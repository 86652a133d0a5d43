"""The command ``ask``: questions about the plan of one cluster, and the table of their answers."""

import argparse
import json
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from asking.answer import OUTSIDE, Answer, answer
from asking.answer_text import OF_RUN, columns_of, remarks, split_table
from asking.consumers import joining, leaving
from asking.first_sentence import sentence
from asking.grow import grow
from asking.how_many import how_many
from asking.noticing import figures_of_groups
from asking.options import variant_parser
from asking.progress import say_estimate, say_plan
from asking.question import VERBS, Question, question_of, with_racks
from asking.restart import restart
from asking.retention import sections as retention_sections
from asking.retire import SHOWN, retire
from asking.run_facts import RunFacts, captured, read_facts, stored_answer
from asking.sections import Document, Dots, Drawing, Grid, Section, text_lines, write_page
from optimizer.cluster_policy import ClusterPolicy
from optimizer.emit.quality_causes import OF_LEFT_OUT
from optimizer.errors import ConfigError
from optimizer.planning import alternatives as planning
from optimizer.planning.in_memory import records
from optimizer.planning.plan_figures import Figures, figures_of
from optimizer.planning.restarts import MINUTES
from optimizer.units import plural
from schemas.verdicts import WITH_PLAN
from sources.quorum import REMEDY, Quorum, parse_quorum
from stored.runs import StoredRun, last_run
from stored.tables import Warehouse

_OPTIONS = {"drain_brokers": "--drain", "exclude_brokers": "--exclude-brokers", "demote_brokers": "--demote"}


def execute_hints(facts: RunFacts, questions: Sequence[Question]) -> Iterator[str]:
    """A line for each question that a job can plan, and one line about all others."""
    for question in questions:
        options = None if question.changes_cluster else job_options(facts, question)
        if options is not None:
            removed = [*_own_drains(facts, question), *_own_settings(facts, question)]
            remove = f", and remove {' and '.join(removed)} of its [[clusters]] table" if removed else ""
            yield f"{question.name}: to execute it, plan again with {options}{remove}"
    if any(question.changes_cluster for question in questions):
        yield "No job can plan new brokers, losses or other loads yet: an input must have them first."


def job_options(facts: RunFacts, question: Question) -> str | None:
    """The options that a job needs in addition to the configuration of the run; None if the question changes nothing.

    A job's list replaces that of ``[policy]`` and adds to that of the cluster's own table.
    """
    words: list[str] = []
    policy = facts.settings.policy
    for name, option in _OPTIONS.items():
        added = question.added_to.get(name, ())
        kept = question.keep if name == "drain_brokers" else ()
        if added or kept:
            general = {*policy.brokers(name), *added} - {*kept}
            words += [option, ",".join(map(str, sorted(general)))] if general else ["--set", f"policy.{name}=[]"]
    if question.only is not None:
        words += ["--only", question.only] if question.only else ["--set", 'policy.only=""']
    for section, knobs in question.knobs.items():
        words += [word for knob, value in knobs.items() for word in ("--set", f"{section}.{knob}={_toml(value)}")]
    return shlex.join(words) if words else None


def _own_drains(facts: RunFacts, question: Question) -> list[str]:
    """Kept brokers that the cluster's own table drains: no option of a job removes them."""
    [cluster] = facts.settings.clusters
    own = sorted(set(question.keep) & set(cluster.drain_brokers))
    return [f"{', '.join(map(str, own))} from drain_brokers"] if own else []


def _own_settings(facts: RunFacts, question: Question) -> list[str]:
    """Settings that the question replaces but the cluster's own table has too: a job prefers or adds those."""
    [cluster] = facts.settings.clusters
    replaced = {**question.knobs.get("policy", {}), **({} if question.only is None else {"only": question.only})}
    names = [field.name for field in fields(ClusterPolicy) if field.name in replaced]
    return [name for name in names if getattr(cluster, name)]


def _toml(value: object) -> str:
    """A value as TOML; JSON has the same texts and true and false."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name} = {_toml(each)}' for name, each in value.items())}}}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | str) else str(value)


def alternatives(facts: RunFacts, moved_bytes: float | None) -> list[Question]:
    """The alternatives that the job stores.

    Parameters
    ----------
    moved_bytes : float, optional
        That the run's plan copies.
    """
    settings = facts.settings
    [requests] = settings.cluster_policies().values()
    chosen = planning.alternatives(settings.policy, requests, moved_bytes)
    return [Question(name, knobs={"policy": knobs}) for name, knobs in chosen.items()]


_LISTED = ("moves", "findings", "wave_findings")  # tables of an answer whose rows are in its JSON


def ask(options: argparse.Namespace, warehouse: Warehouse) -> Iterator[str]:
    """Lines of the answers.

    Raises
    ------
    BallastError
        When the run cannot be asked, or a question cannot be answered.
    """
    facts = asked_facts(options, warehouse)
    if options.restart:
        yield from _restart_lines(options, facts, warehouse)
        return
    if options.consumer_leaves or options.consumers:
        _check_together(options)
        found = (
            leaving(facts, options.consumer_leaves) if options.consumer_leaves else joining(facts, *options.consumers)
        )
        yield from written(options, found.document(), found.as_json)
        return
    stored = stored_figures(warehouse, facts)
    words, answers, ranking = _answers(options, facts, stored)
    shown = answers[: SHOWN if ranking else len(answers)]
    document = document_of(facts, stored, shown, words, [*_about_alternatives(options)], ranking)
    yield from written(options, document, lambda: as_json(facts, stored, answers, " ".join(words)))


def written(options: argparse.Namespace, document: Document, to_json: Callable[[], str]) -> Iterator[str]:
    """The lines of an answer; writes its page if one was asked for."""
    if options.html:
        write_page(options.html, document)
    yield from [to_json()] if options.json else text_lines(document)


def _restart_lines(options: argparse.Namespace, facts: RunFacts, warehouse: Warehouse) -> Iterator[str]:
    _check_together(options)
    stored = StoredRun(warehouse, facts.run_id, facts.cluster_id)
    found = restart(
        facts,
        question_of(options),
        spare=options.spare or 0,
        most=options.batches_of or 0,
        most_load=options.batch_load or 1.0,
        minutes=options.restart_minutes or MINUTES,
        quorum=_quorum(Path(options.quorum)) if options.quorum else None,
        throttles=stored.rows("throttles_found"),
        lacks_partitions=any(row["rule"] in OF_LEFT_OUT for row in stored.rows("input_findings", "rule")),
        anyway=options.anyway,
    )
    yield from written(options, found.document(), found.as_json)


def _quorum(path: Path) -> Quorum:
    try:
        return parse_quorum(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}; {REMEDY}") from error


def asked_facts(options: argparse.Namespace, warehouse: Warehouse) -> RunFacts:
    """The facts of the run that a command line names; without a name, of the last one that planned the cluster."""
    run_id, cluster_id = options.run_id, options.cluster
    last = last_run(warehouse, cluster_id, allowed=WITH_PLAN) if run_id is None else run_id
    return read_facts(warehouse, cluster_id, last)


_Answers = tuple[Sequence[str], Sequence[Answer], Sequence[str | Grid]]


def _answers(options: argparse.Namespace, facts: RunFacts, stored: Figures) -> _Answers:
    """A sentence that answers the question, all answers; of a choice also how far it is proven, and its ranking."""
    _check_together(options)
    if options.retire is not None:
        choice = retire(facts, question_of(options), options.retire, options.of or ())
        return (choice.words(), choice.proof()), choice.answers, choice.ranking()
    if options.grow is not None:
        growth = grow(facts, question_of(options), percent=options.grow, until=options.until or "")
        return (growth.words(),), growth.answers, []
    if options.how_many_like is not None:
        limit, survive = options.disk_below, options.survive_rack
        need = how_many(facts, question_of(options), like=options.how_many_like, limit=limit, survive_rack=survive)
        return (need.words(),), need.answers, []
    questions = questions_of(options, facts, stored)
    say_estimate(facts, len(questions), plural(len(questions), "plan"))
    answers = []
    for number, question in enumerate(questions, start=1):
        if len(questions) > 1:
            say_plan(f"{number} of {len(questions)}: {question.name}")
        answers.append(answer(facts, question, anyway=options.anyway))
    return (sentence(stored, answers),), answers, []


def _check_together(options: argparse.Namespace) -> None:
    """Refuse options that belong to different questions."""
    counts, retires = options.how_many_like is not None, options.retire is not None
    if counts != (options.disk_below is not None) or (options.survive_rack and not counts):
        raise ConfigError("--how-many-like ID and --disk-below SHARE belong together; --survive-rack needs both")
    if counts and options.add_broker:
        raise ConfigError("--how-many-like counts new brokers itself: leave --add-broker out")
    if options.anyway and (counts or retires):
        remedy = "add it to a question about the brokers themselves, with --drain or --add-broker"
        raise ConfigError(f"--anyway: --retire and --how-many-like choose among plans that fit; {remedy}")
    if options.of and not retires:
        raise ConfigError("--of chooses the brokers for --retire N: also give it")
    if options.until and options.grow is None:
        raise ConfigError("--until is the last month of --grow: also give it, such as --grow 4%/month")
    of_restart = (options.spare, options.batches_of, options.batch_load, options.restart_minutes, options.quorum)
    if any(of_restart) and not options.restart:
        words = "--spare, --batches-of, --batch-load, --restart-minutes and --quorum"
        raise ConfigError(f"{words} are about the batches of --restart: also give it")
    several = bool(options.variant or options.variants or options.alternatives)
    of_consumers = [*filter(None, (options.consumer_leaves, options.consumers))]
    if of_consumers and not question_of(options).changes_nothing:
        words = question_of(options).words()
        raise ConfigError(f"--consumer-leaves and --consumers do not depend on the plan: leave out {words}")
    if retires + counts + several + (options.grow is not None) + options.restart + len(of_consumers) > 1:
        questions = "--retire, --how-many-like, --grow, --restart, --consumer-leaves, --consumers and several variants"
        raise ConfigError(f"{questions} are different questions: ask them one by one")


def questions_of(options: argparse.Namespace, facts: RunFacts, stored: Figures) -> list[Question]:
    """The questions of the command line, of its variants, and of a file; without any, the run itself is asked.

    Raises
    ------
    ConfigError
        When one is not usable.
    """
    own = question_of(options)
    questions = [own] if own != question_of(variant_parser().parse_args([])) else []
    questions += map(_variant, options.variant)
    questions += _of_file(options.variants) if options.variants else []
    questions += alternatives(facts, stored.get("moved_bytes", (None, None))[1]) if options.alternatives else []
    names = [*OF_RUN, *(question.name for question in questions)]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigError(f"two columns are called {repeated[0]!r}: give each question a name of its own")
    return questions or [own]


def _variant(text: str) -> Question:
    name, colon, words = text.partition(":")
    if not (colon and name.strip()):
        raise ConfigError(f"--variant {text!r}: write 'NAME: OPTIONS', such as 'wide: --set policy.disk_band=0.1'")
    return _named(name.strip(), words, f"--variant {text!r}")


def _named(name: str, words: str, where: str) -> Question:
    try:
        options = shlex.split(words)
    except ValueError as error:  # a quote that does not end
        raise ConfigError(f"{where}: {str(error).lower()}") from error
    return question_of(variant_parser().parse_args(options), name)


def _of_file(path: str) -> list[Question]:
    """The questions of a TOML file: [[variants]] with ``name`` and ``options``."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"--variants {path}: {error}") from error
    tables = content.get("variants")
    remedy = 'write [[variants]] tables with name = "wide" and options = "--set policy.disk_band=0.1"'
    if set(content) != {"variants"} or not isinstance(tables, list):
        raise ConfigError(f"--variants {path}: {remedy}")
    for table_ in tables:
        if (
            not isinstance(table_, dict)
            or set(table_) != {"name", "options"}
            or not all(isinstance(value, str) for value in table_.values())
        ):
            raise ConfigError(f"--variants {path}: {table_!r}: {remedy}")
    return [_named(table_["name"], table_["options"], f"--variants {path}: {table_['name']}") for table_ in tables]


def stored_figures(warehouse: Warehouse, facts: RunFacts) -> Figures:
    """Figures of the plan that the run has stored."""
    tables = stored_answer(warehouse, facts)
    of_plan = figures_of({**tables, "measured": tables["broker_balance"]}, facts.brokers)
    groups = warehouse.rows("consumer_impact", cluster_id=facts.cluster_id, run_id=facts.run_id)
    return {**of_plan, **figures_of_groups(groups)}


def document_of(
    facts: RunFacts,
    stored: Figures,
    answers: Sequence[Answer],
    words: Sequence[str],
    notes: Sequence[str] = (),
    ranking: Sequence[str | Grid] = (),
) -> Document:
    """The sentence, what was asked, the figures that differ, findings, how to execute an answer, other figures."""
    questions = [item.question for item in answers]
    title, *proof = words
    run = f"{facts.cluster_id}: what if, from run {facts.run_id}{captured(facts)}"
    head = [*proof, run, f"The run requests: {_requests(facts)}."]
    for question in questions:
        name = "Asked" if question.name == question.words() else question.name
        head.append(f"{name}: {with_racks(facts, question).words()}.")
    drawn = [Dots(item.question.name, item.disks_before, item.disks_after) for item in answers if item.disks_after]
    caption = "Disks in percent of their capacity, a dot for each broker: before above, after below"
    differing, same = split_table(columns_of(stored, answers))
    solved = [item.question for item in answers if item.plan]
    lines = [*remarks(answers), *notes, *_about_windows(questions), *execute_hints(facts, solved)]
    sections = [
        Section("Choices, the best first", ranking),
        Section("What differs", differing),
        Section("Disks", [Drawing(caption, drawn)] if drawn else []),
        Section("Remarks", lines),
        *(section for each in questions for section in retention_sections(facts.partitions, each.retention)),
        Section("Other figures", same),
    ]
    return Document(title, head, [section for section in sections if section.parts])


def _about_alternatives(options: argparse.Namespace) -> Iterator[str]:
    """Alternatives are those that the job stores, whatever else is asked."""
    asked = question_of(options)
    if options.alternatives and not asked.changes_nothing:
        yield f"The alternatives are those of the run: they leave out {asked.words()}."


def _about_windows(questions: Sequence[Question]) -> Iterator[str]:
    """A job measures the rates in its windows; an answer has only those that the run has stored."""
    names = [question.name for question in questions if "windows" in question.knobs.get("schedule", {})]
    if names:
        yield f"{', '.join(names)}: uses the rates of the run; a job measures those in the windows."


def _requests(facts: RunFacts) -> str:
    """The requests of the run for the cluster, in the words of a question."""
    [policy] = facts.settings.cluster_policies().values()
    lists = [(verb, policy.brokers(name)) for name, verb in VERBS.items()]
    parts = [f"{verb} {', '.join(map(str, ids))}" for verb, ids in lists if ids]
    parts += [f"only {policy.only}"] if policy.only else []
    parts += [plural(len(policy.pins), "pin")] if policy.pins else []
    factors = len(policy.replication_factors)
    parts += [f"replication factors of {plural(factors, 'pattern')}"] if factors else []
    parts += [f"at most {policy.max_moved_gb:g} GB"] if policy.max_moved_gb else []
    parts += [f"at most {policy.max_moves} moves"] if policy.max_moves else []
    general = facts.settings.policy
    topics = [f"topics {', '.join(general.topics)}"] if general.topics else []
    topics += [f"start at {general.start_at:g}"] if general.start_at else []
    topics += [f"exclude topics {', '.join(general.exclude_topics)}"] if general.exclude_topics else []
    return ", ".join([*(parts or ["balance"]), *topics])


def as_json(facts: RunFacts, stored: Figures, answers: Sequence[Answer], headline: str = "") -> str:
    """One line with every figure, and the moves of each answer."""
    return json.dumps(
        {
            "cluster_id": facts.cluster_id,
            "run_id": facts.run_id,
            "headline": headline,
            "this_run": figures_as_json(stored),
            "answers": [_as_dict(facts, item) for item in answers],
        }
    )


def figures_as_json(figures: Figures) -> dict[str, dict[str, float | None]]:
    """Values before and after the plan, by name."""
    return {name: {"before": before, "after": after} for name, (before, after) in sorted(figures.items())}


def _as_dict(facts: RunFacts, item: Answer) -> dict[str, Any]:
    tables = item.plan.tables if item.plan else {}
    content = {name: records(tables[name]) if name in tables else [] for name in _LISTED}
    return {
        "name": item.question.name,
        "asked": with_racks(facts, item.question).words(),
        "shortage": vars(item.shortage) if item.shortage else None,
        "figures": figures_as_json(item.compared),
        "outside_own_bands": item.figures[OUTSIDE][1] if item.plan else None,
        **content,
    }
