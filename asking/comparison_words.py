"""The comparison of two runs for people: counts, and the largest differences."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from asking.comparison import (
    ADDED,
    DONE,
    IN_FLIGHT,
    NEITHER,
    NO_PARTITION,
    OLD,
    ONLY_A,
    ONLY_B,
    OTHER_LIST,
    REMOVED,
    SAME_LIST,
    Change,
    Comparison,
    PartitionChanges,
    PlanDifferences,
    Progress,
    WaveTime,
    plain,
)
from asking.run_rows import RunRows
from asking.sections import Document, Grid, Section, split
from optimizer.emit.figure_table import BALANCE, COST, FIGURES
from optimizer.units import agree, clause, human_bytes, human_count, human_rate, human_time, listed, plural

SHOWN = 10  # rows of a list that the text shows; --json has all
_LONG = 40  # characters: of a longer list, only what differs is shown
NOTHING = "-"
_GONE = "Not compared: rows of a run are gone (see above)."
_PROPERTIES: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "rack": ("rack", str),
    "state": ("state", str),
    "closed_cause": ("receives no replicas because of", str),
    "disk_capacity_bytes": ("disk capacity", human_bytes),
    "in_capacity_bytes_per_s": ("network capacity in", human_rate),
    "out_capacity_bytes_per_s": ("network capacity out", human_rate),
    "topic_id": ("deleted and created again", str),
    "partitions": ("partitions", human_count),
    "replication_factor": ("replication factor", str),
    "min_insync_replicas": ("min.insync.replicas", str),
    ADDED: ("only in B", str),
    REMOVED: ("only in A", str),
}
_KINDS = {
    SAME_LIST: "both plans, to the same list",
    OTHER_LIST: "both plans, to another list",
    ONLY_A: "only plan A",
    ONLY_B: "only plan B",
}
_STATES = {
    DONE: "have the list of plan A",
    IN_FLIGHT: "are being reassigned to it",
    OLD: "still have the list before plan A",
    NEITHER: "have neither list",
    NO_PARTITION: "do not exist any more",
}


def answer(comparison: Comparison) -> Document:
    """The comparison as sections."""
    a, b = comparison.runs
    totals = [_totals(comparison.partitions)] if comparison.partitions else []
    figures = [_figures(comparison.figures)] if comparison.figures is not None else []
    (totals, same_totals), (figures, same_figures) = (_split(grids) for grids in (totals, figures))
    sections = [
        Section("Requests", list(_requests(comparison.requests))),
        Section("Cluster", [*totals, *_cluster(comparison)]),
        Section("Plans", [*figures, *_plans(comparison.plans)]),
        Section("From plan A to run B", list(_progress(comparison.progress))),
        Section("Times of waves", list(_waves(comparison))),
        *([Section("The same in both runs", [*same_totals, *same_figures])] if same_totals or same_figures else []),
    ]
    context = f"{comparison.cluster_id}: what changed between runs A and B"
    head = [context, _describe_run("A", a), _describe_run("B", b), *_warnings(a, b), *a.notes, *b.notes]
    return Document(_sentence(comparison), head, sections)


def _split(grids: Sequence[Grid]) -> tuple[list[Grid], list[Grid]]:
    """Tables of A and B: the rows that differ, and the others."""
    parts = [split(grid, lambda row: row[1] == row[2]) for grid in grids]
    return [grid for differing, _ in parts for grid in differing], [grid for _, same in parts for grid in same]


def _sentence(comparison: Comparison) -> str:
    """What changed, and what the plans copy; "Nothing changed." only if all was compared."""
    partitions, plans = comparison.partitions, comparison.plans
    names = {
        "setting": {change.name for change in comparison.requests or ()},
        "broker": {change.name for change in comparison.brokers or ()},
        "topic": {change.name for change in comparison.topics or ()},
        "partition": _changed(partitions) if partitions else set[Any](),
    }
    counts = [plural(len(changed), noun) for noun, changed in names.items() if changed]
    changed = [f"{listed(counts)} changed"] if counts else []
    if plans and (plans.partitions["kind"] != SAME_LIST).any():
        a, b = (human_bytes(plans.partitions[f"moved_bytes_{run}"].sum()) for run in "ab")
        changed += [f"plan A copies {a}, plan B {b}" if a != b else f"the plans differ, but both copy {a}"]
    elif counts and plans:
        changed += ["both plans are the same"]
    if changed:
        text = "; ".join(changed)
        return f"{text[0].upper()}{text[1:]}."
    is_whole = None not in (comparison.requests, comparison.brokers, comparison.topics, partitions, plans)
    return "Nothing changed." if is_whole else "Nothing changed in what can be compared: rows of a run are gone."


def _changed(partitions: PartitionChanges) -> set[Any]:
    """The partitions that differ in anything."""
    frames = (partitions.added, partitions.removed, partitions.lists, partitions.sizes, partitions.rates)
    return {key for frame in frames if len(frame) for key in zip(frame["topic"], frame["partition"], strict=True)}


def _describe_run(letter: str, run: RunRows) -> str:
    snapshot = f"snapshot of {run.captured_at:%Y-%m-%d %H:%M} UTC" if run.captured_at else "snapshot without a time"
    return f"{letter}: run {run.run_id}, {run.verdict}, {snapshot}"


def _warnings(a: RunRows, b: RunRows) -> Iterator[str]:
    if a.captured_at and b.captured_at and b.captured_at < a.captured_at:
        yield "The snapshot of B is older than that of A: name the earlier run first."
    if a.code_version and b.code_version and a.code_version != b.code_version:
        yield f"Two releases made the plans: {a.code_version} made A, {b.code_version} made B."


def _requests(requests: Sequence[Change] | None) -> Iterator[str | Grid]:
    if requests is None:
        yield _GONE
    elif not requests:
        yield "Both runs have the same policy, solver and schedule."
    else:
        yield Grid(("setting", "A", "B"), [(change.name, *_setting(change)) for change in requests], texts=(0, 1, 2))


def _setting(change: Change) -> tuple[str, str]:
    """Both values as in a configuration file; of a long list, only what differs."""
    before, after = change.before, change.after
    texts = json.dumps(before), json.dumps(after)
    if not (isinstance(before, list) and isinstance(after, list)) or max(map(len, texts)) <= _LONG:
        return texts
    same = sum(value in after for value in before)
    others = f" and {same} in both" if same else ""
    only = [value for value in before if value not in after], [value for value in after if value not in before]
    return f"{json.dumps(only[0])}{others}", f"{json.dumps(only[1])}{others}"


def _cluster(comparison: Comparison) -> Iterator[str | Grid]:
    partitions = comparison.partitions
    for kind, changes in (("broker", comparison.brokers), ("topic", comparison.topics)):
        yield from _changes(kind, changes)
    if partitions is None:
        yield "Partitions are not compared: rows of a run are gone (see above)."
    else:
        yield _partitions(partitions)
        yield from _topic_loads(partitions)


def _totals(partitions: PartitionChanges) -> Grid:
    shows: Sequence[tuple[str, str, Callable[[float], str]]] = (
        ("Partitions", "partitions", human_count),
        ("Replicas", "replicas", human_count),
        ("Bytes on all brokers", "total_bytes", human_bytes),
        ("Produced per second", "in_bytes_per_s", human_rate),
        ("Consumed per second", "out_bytes_per_s", human_rate),
        ("Partitions with a replica out of sync", "out_of_sync", human_count),
        ("Partitions without a leader", "without_leader", human_count),
        ("Partitions being reassigned", "in_flight", human_count),
    )
    rows = [(label, *(show(getattr(totals, name)) for totals in partitions.totals)) for label, name, show in shows]
    return Grid(("", "A", "B"), rows)


def _changes(kind: str, changes: Sequence[Change] | None) -> Iterator[str | Grid]:
    if changes is None:
        yield f"{kind.capitalize()}s are not compared: rows of a run are gone (see above)."
    elif not changes:
        yield f"No {kind} was added, removed or changed."
    else:
        rows = [(change.name, *_property(change)) for change in changes[:SHOWN]]
        yield Grid((kind, "difference", "A", "B"), rows, texts=(0, 1, 2, 3))
        yield from _more(len(changes))


def _property(change: Change) -> tuple[str, str, str]:
    label, show = _PROPERTIES[change.what]
    if change.what in (ADDED, REMOVED, "topic_id"):
        return label, "", ""
    before, after = (NOTHING if value is None else show(value) for value in (change.before, change.after))
    return label, before, after


def _more(count: int) -> Iterator[str]:
    if count > SHOWN:
        yield f"And {count - SHOWN:,} more: --json lists all."


def _partitions(partitions: PartitionChanges) -> str:
    counts = (
        ("added", partitions.added),
        ("removed", partitions.removed),
        ("with another replica list", partitions.lists),
        ("with another size", partitions.sizes),
        ("with other rates", partitions.rates),
    )
    texts = [f"{len(frame):,} {what}" for what, frame in counts if len(frame)]
    return f"Partitions: {', '.join(texts)}." if texts else "No partition, replica list, size or rate changed."


def _topic_loads(partitions: PartitionChanges) -> Iterator[str | Grid]:
    topics = partitions.topics
    sizes = topics[topics["size_bytes_a"] != topics["size_bytes_b"]]
    if len(sizes):
        yield _load_grid("topics whose bytes changed most", sizes, {"size_bytes": ("", human_bytes)})
        yield from _more(len(sizes))
    names = ("in_bytes_per_s", "out_bytes_per_s")
    topics = topics.assign(change=sum((topics[f"{name}_a"] - topics[f"{name}_b"]).abs() for name in names))
    rates = topics[topics["change"] > 0].sort_values(["change", "topic"], ascending=[False, True])
    if len(rates):
        columns = {names[0]: ("produced ", human_rate), names[1]: ("consumed ", human_rate)}
        yield _load_grid("topics whose rates changed most", rates, columns)
        yield from _more(len(rates))


def _load_grid(title: str, topics: pd.DataFrame, columns: Mapping[str, tuple[str, Callable[[float], str]]]) -> Grid:
    header = [f"{label}{run.upper()}" for label, _ in columns.values() for run in "ab"]
    rows = [
        (row["topic"], *(show(row[f"{name}_{run}"]) for name, (_, show) in columns.items() for run in "ab"))
        for row in topics.head(SHOWN).to_dict("records")
    ]
    return Grid((title, *header), rows)


def _plans(plans: PlanDifferences | None) -> Iterator[str | Grid]:
    if plans is None:
        yield _GONE
        return
    if not len(plans.partitions):
        yield "Neither plan changes a partition."
        return
    if plans.by_reason is not None:
        yield _reasons(plans.by_reason)
    yield _kinds(plans)
    yield from _differences(plans)


def _figures(figures: pd.DataFrame) -> Grid:
    """Label and both values of each figure; a figure about balance has its values before and after the plan."""
    rows = []
    by_name = figures.set_index("figure")
    for figure in FIGURES:
        if figure.group not in (COST, BALANCE) or figure.name not in by_name.index:
            continue
        row = by_name.loc[figure.name]
        sides = ("before", "after") if figure.group == BALANCE else ("after",)
        values = [[plain(row[f"{side}_{run}"]) for side in sides] for run in "ab"]
        if not figure.hidden_at_zero or any(value for pair in values for value in pair):
            a, b = (" -> ".join(NOTHING if v is None else figure.show(v) for v in pair) for pair in values)
            rows.append((figure.label, a, b))
    return Grid(("", "A", "B"), rows)


def _reasons(reasons: pd.DataFrame) -> Grid:
    shows = {"partitions": human_count, "copies": human_count, "bytes": human_bytes}
    columns = [(f"{name}_{run}", f"{name} {run.upper()}", show) for run in "ab" for name, show in shows.items()]
    rows = [(row["reason"], *(show(row[name]) for name, _, show in columns)) for row in reasons.to_dict("records")]
    return Grid(("reason", *(label for _, label, _ in columns)), rows)


def _kinds(plans: PlanDifferences) -> Grid:
    rows = []
    for kind, label in _KINDS.items():
        partitions = plans.partitions[plans.partitions["kind"] == kind]
        rows.append((label, *_sums(partitions)))
        done = partitions[partitions["is_done"]]
        if len(done):
            rows.append(("  of them, done before run B", *_sums(done)))
    return Grid(("changed by", "partitions", "bytes A", "bytes B"), rows)


def _sums(partitions: pd.DataFrame) -> tuple[str, str, str]:
    a, b = (human_bytes(partitions[f"moved_bytes_{run}"].sum()) for run in "ab")
    return human_count(len(partitions)), a, b


def _differences(plans: PlanDifferences) -> Iterator[str | Grid]:
    """The largest copies that only one plan makes, or both make to other brokers; without those that are done."""
    differ = plans.partitions[(plans.partitions["kind"] != SAME_LIST) & ~plans.partitions["is_done"]]
    if len(differ):
        header = ("largest differences", "list in A", "list in B", "plan A", "reason", "plan B", "reason", "bytes")
        rows = [_difference(row) for row in differ.head(SHOWN).to_dict("records")]
        yield Grid(header, rows, texts=range(len(header) - 1))
        yield from _more(len(differ))


def _difference(row: Mapping[Any, Any]) -> tuple[str, ...]:
    """The list of a partition in both runs, and what each plan makes of it and why."""
    before = [plain(row[f"current_replicas_{run}"]) or NOTHING for run in "ab"]
    if before[0] == before[1]:
        before[1] = "same"
    plans: list[str] = []
    for run, other in (("a", ONLY_B), ("b", ONLY_A)):
        cells = (plain(row[f"{name}_{run}"]) or NOTHING for name in ("proposed_replicas", "reason_codes"))
        plans += [NOTHING, NOTHING] if row["kind"] == other else cells
    largest = max(plain(row[f"moved_bytes_{run}"]) or 0 for run in "ab")
    return _partition(row), *before, *plans, human_bytes(largest)


def _partition(row: Mapping[Any, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"


def _progress(progress: Progress | None) -> Iterator[str | Grid]:
    if progress is None:
        yield _GONE
        return
    partitions = progress.partitions
    if not len(partitions):
        yield "Plan A changes no partition."
    else:
        yield _share(progress)
        rows = [(_STATES[s], human_count(progress.count(s)), human_bytes(progress.bytes(s))) for s in _STATES]
        yield Grid(("partitions of plan A that", "partitions", "bytes to copy"), rows)
        yield from _neither(partitions)
    if progress.other_changes:
        differ = clause(progress.other_changes, "partition", "has", "have")
        yield f"{differ} another list in B, and plan A does not change {agree(progress.other_changes, 'it', 'them')}."


def _share(progress: Progress) -> str:
    total = len(progress.partitions)
    done = progress.count(DONE)
    if done == total:
        return "Plan A is done."
    if done == 0 and progress.count(OLD) == total:
        return "Nothing of plan A was done."
    has = agree(done, "has", "have")
    return f"{done:,} of the {plural(total, 'partition')} that plan A changes {has} its list in B."


def _neither(partitions: pd.DataFrame) -> Iterator[str | Grid]:
    neither = partitions[partitions["state"] == NEITHER]
    if len(neither):
        rows = [
            (_partition(row), row["current_replicas"], row["proposed_replicas"], row["now"])
            for row in neither.head(SHOWN).to_dict("records")
        ]
        yield Grid(("neither list", "before plan A", "plan A", "in B"), rows, texts=range(4))
        yield from _more(len(neither))
        reordered = int(neither["is_reordered"].sum())
        if reordered:
            yield f"{reordered:,} of these {agree(reordered, 'has', 'have')} the brokers of plan A in another order."


def _waves(comparison: Comparison) -> Iterator[str | Grid]:
    waves = comparison.waves
    if not waves:
        yield "There are no rows of waves."
        return
    shown = waves[: 2 * SHOWN]
    letters = {run.run_id: letter for letter, run in zip("AB", comparison.runs, strict=True)}
    header = ("plan", "wave", "partitions", "done in B", "bytes", "predicted", "interval", "measured")
    yield Grid(header, [(letters[wave.run_id], *_wave(wave)) for wave in shown])
    if len(waves) > len(shown):
        yield f"And {plural(len(waves) - len(shown), 'wave')} more: --json lists all."


def _wave(wave: WaveTime) -> tuple[str, ...]:
    measured = NOTHING
    if wave.has_ended:
        measured = "not measured" if wave.measured_seconds is None else human_time(wave.measured_seconds)
    return (
        str(wave.wave),
        human_count(wave.partitions),
        NOTHING if wave.done is None else human_count(wave.done),
        human_bytes(wave.moved_bytes),
        human_time(wave.estimated_seconds),
        f"{human_time(wave.least_seconds)} to {human_time(wave.most_seconds)}",
        measured,
    )
