"""Stage 2: bronze -> the clean tables, what was set aside, and the results of the quality gate."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from optimizer.errors import QualityGateFailed
from optimizer.frames import checks, cross_rules, quality, rule_table, silver, throttles_found
from optimizer.frames.checks import Judged
from optimizer.frames.input_findings import summed_up
from optimizer.frames.measures import Counted, measured
from optimizer.frames.metrics import from_records, partition_rates, resolve_topics
from optimizer.frames.rules import set_aside
from optimizer.frames.sources_read import sources_read
from optimizer.frames.typed import typed
from optimizer.settings import Settings
from optimizer.stages import Frames, Refusals, Run
from optimizer.units import plural
from schemas.bronze import INPUT_FINDINGS, QUALITY_RESULTS, QUARANTINE
from schemas.silver import BROKERS, LOG_DIRS, PARTITION_LOAD, REPLICAS, THROTTLES_FOUND, TOPICS
from schemas.table import Table, conform, small_frame
from sources.detect import RULE as KNOWN_FORMAT_RULE

_AT_ONCE = 3
_EXAMPLES = 5
_LISTED = 20
# Lines and whole files that were not read; a file of an unknown kind is no error, but may be what is missing.
_UNREAD = f"kind = 'malformed' AND (severity = 'error' OR rule = '{KNOWN_FORMAT_RULE}')"


@dataclass(frozen=True)
class _Cleaned:
    """The clean tables, and the judged frames that they come from."""

    tables: Frames
    judged: tuple[Judged, ...]
    quarantine: DataFrame
    counted: Counted


@dataclass(frozen=True)
class _Hosts:
    """What is known about brokers."""

    registered: Judged
    dirs: Judged
    brokers: Judged
    capacities: Judged


@dataclass(frozen=True)
class _Measures:
    """What metrics say."""

    rates: DataFrame
    judged: Judged
    doubtful: DataFrame


def build(inputs: Frames, run: Run) -> Frames:
    """Type, judge and join the records of every cluster; then let Great Expectations judge the outcome."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cleaned = _clean(inputs, run.settings, pool)
    quarantine = cleaned.quarantine.transform(checks.kept)
    clusters = [cluster.id for cluster in run.settings.clusters]
    figures = measured(cleaned.counted, quarantine, run.settings, run.spark).toPandas()
    results = quality.evaluate(cleaned.judged, figures, clusters=clusters, settings=run.settings)
    measures = [{str(name): value for name, value in row.items()} for row in figures.to_dict("records")]
    findings = summed_up(quarantine, results, measures, judged=cleaned.judged, settings=run.settings)
    told = throttles_found.told(cleaned.tables["throttles_found"])
    return {
        **cleaned.tables,
        "quarantine": quarantine,
        "sources": sources_read(inputs),
        "quality_results": _driver_rows(results, QUALITY_RESULTS, run),
        "input_findings": _driver_rows(chain(findings, told), INPUT_FINDINGS, run),
    }


def _driver_rows(rows: Iterable[Mapping[str, Any]], table: Table, run: Run) -> DataFrame:
    named = [{**row, "run_id": run.run_id} for row in rows]
    return small_frame(run.spark, [{c: row[c] for c in table.schema.fieldNames()} for row in named], table.schema)


def _clean(inputs: Frames, settings: Settings, pool: Executor) -> _Cleaned:
    """Placements first: all else is judged against them, a few kinds at once (planning a query takes one core)."""
    records = inputs["bronze_records"].transform(checks.kept)
    placements = checks.judge_placements(records)
    moving = checks.judge_reassignments(records, placements.used)
    placed = silver.partitions_in_flight(placements.used, moving.used).transform(checks.kept)
    later_measures = pool.submit(_measures, inputs["bronze_metrics"], records, placed, settings)
    later_hosts = pool.submit(_hosts, records, placed, settings)
    sizes = checks.judge_sizes(records, placed)
    topics = checks.judge_topics(records, placed)
    loads = checks.judge_loads(records, placed)
    cluster_ids = checks.judge_cluster_ids(records)
    configs = typed(records, "config")
    measures, hosts = later_measures.result(), later_hosts.result()
    local = silver.local_sizes(sizes.used)
    load = checks.judged(
        "partition_load",
        silver.partition_load(
            placed,
            local,
            measures.rates,
            loads.used,
            logs=sizes.rows.where("ok_replica_size_readable"),
            log_dirs=hosts.dirs.used,
        ),
        (*rule_table.coverage(settings), *cross_rules.REPLICAS_WITH_LOGS),
    )
    replicas = conform(silver.replicas(placed, local), REPLICAS).transform(checks.kept)
    brokers = silver.brokers(hosts.brokers.rows, hosts.dirs.used, hosts.capacities.used).transform(checks.kept)
    held = checks.judge_held(brokers, replicas, load.rows)
    of_hosts = (hosts.registered, hosts.dirs, hosts.brokers, hosts.capacities, held)
    judged = (placements, moving, *of_hosts, sizes, topics, loads, measures.judged, load, cluster_ids)
    aside = [*(set_aside(one.rows, one.rules) for one in judged), checks.malformed(records), measures.doubtful]
    return _Cleaned(
        tables={
            "brokers": conform(brokers, BROKERS),
            "log_dirs": conform(silver.log_dirs(hosts.dirs.used, sizes.used, hosts.capacities.used), LOG_DIRS),
            "topics": conform(silver.topics(placed, topics.used, configs), TOPICS),
            "replicas": replicas,
            "partition_load": conform(load.rows, PARTITION_LOAD),
            "throttles_found": conform(throttles_found.build(topics.used, configs), THROTTLES_FOUND),
        },
        judged=judged,
        quarantine=_quarantine(aside),
        counted=Counted(
            records=records,
            samples=inputs["bronze_metrics"],
            placed=placed,
            registered=hosts.registered.used,
            sizes=sizes.rows,
            topics=topics.rows,
            load=load.rows,
        ),
    )


def _hosts(records: DataFrame, placed: DataFrame, settings: Settings) -> _Hosts:
    registered = checks.judge_brokers(records)
    dirs = checks.judge_log_dirs(records)
    listed = registered.rows.where("ok_broker_id_legal")
    known = silver.known_brokers(listed, placed, dirs.used, typed(records, "config"))
    brokers = checks.judged("brokers", known, (*rule_table.known_brokers(settings), *cross_rules.BROKERS))
    return _Hosts(registered, dirs, brokers, checks.judge_capacities(records, brokers.rows, dirs.used))


def _measures(bronze_metrics: DataFrame, records: DataFrame, placed: DataFrame, settings: Settings) -> _Measures:
    """Samples of files and text expositions under the topics' names, as rates; names that may mean several topics."""
    topics = placed.select("cluster_id", "run_id", "topic").distinct()
    named, doubtful = resolve_topics(bronze_metrics.unionByName(from_records(records)), topics)
    samples = named.transform(checks.kept)
    rates = partition_rates(samples, settings.metrics).transform(checks.kept)
    return _Measures(rates, checks.judge_metrics(samples, rates, placed), doubtful.transform(checks.kept))


def _quarantine(frames: Sequence[DataFrame]) -> DataFrame:
    """All that was set aside; a row that came twice is listed once."""
    rows = reduce(DataFrame.unionByName, frames)
    told = {name: F.min(name).alias(name) for name in ("severity", "reason", "remedy")}
    return conform(rows.groupBy(*QUARANTINE.full_key).agg(*told.values()), QUARANTINE)


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters of which a critical expectation failed.

    Each names what could not be read, then every failed rule with count, examples and remedy.
    """
    failed = frames["quality_results"].where("severity = 'critical' AND NOT success")
    rows = failed.orderBy("cluster_id", "table_name", "rule").collect()
    if not rows:
        return {}
    broken: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        broken.setdefault(row.cluster_id, []).append(row.asDict())
    examples = _examples(frames["quarantine"])
    end = f"all rows: table quarantine, run {run.run_id!r}; results: {_docs_folder(run) / 'index.html'}"
    refused = {}
    for cluster, rules in broken.items():
        unread = _unread(frames["quarantine"].where(F.col("cluster_id") == cluster))
        head = f"the data can't be planned on: {plural(len(rules), 'broken rule')}"
        told = [_told(rule, examples.get((cluster, rule["rule"]), [])) for rule in rules]
        refused[cluster] = QualityGateFailed("\n".join([head, *unread, *told, end]))
    return refused


def _unread(quarantine: DataFrame) -> list[str]:
    """What no parser could read, the first places of each file: other rules may be broken because it is missing."""
    of_file = Window.partitionBy("cluster_id", "source")
    places = {"place": F.row_number().over(of_file.orderBy("line", "payload")), "places": F.count("*").over(of_file)}
    ranked = quarantine.where(_UNREAD).withColumns(places).where(F.col("place") <= _EXAMPLES)
    told: dict[str, list[str]] = {}
    for row in ranked.orderBy("cluster_id", "source", "place").collect():
        lines = told.setdefault(
            row.cluster_id, [f"- cluster {row.cluster_id}: not read, and so missing in what follows"]
        )
        lines += [f"    {row.source}:{row.line}: {row.reason}", f"        mend: {row.remedy}"]
        if row.place == _EXAMPLES < row.places:
            lines.append(f"    and {row.places - _EXAMPLES} more places of {row.source}")
    return ["\n".join(lines) for lines in told.values()]


def _examples(quarantine: DataFrame) -> dict[tuple[str, str], list[str]]:
    """The first rows of each rule; errors of all rules, but for those of ``_unread``, stand for the share set aside."""
    errors = quarantine.where(f"severity = 'error' AND NOT ({_UNREAD})").withColumn("rule", F.lit("quarantined_share"))
    order = Window.partitionBy("cluster_id", "rule").orderBy("source", "line", "payload")
    ranked = quarantine.unionByName(errors).withColumn("place", F.row_number().over(order))
    most = F.when(F.col("rule").isin(*(rule.name for rule in rule_table.COVERAGE)), _LISTED).otherwise(_EXAMPLES)
    found: dict[tuple[str, str], list[str]] = {}
    for row in ranked.where(F.col("place") <= most).orderBy("cluster_id", "rule", "place").collect():
        found.setdefault((row.cluster_id, row.rule), []).append(f"{row.source}:{row.line}: {row.reason}")
    return found


def _told(row: Mapping[str, Any], examples: Sequence[str]) -> str:
    head = f"- cluster {row['cluster_id']}, {row['rule']}: {row['observed']}, allowed {row['threshold']}"
    return "\n".join([head, *(f"    {example}" for example in examples), f"    mend: {row['remedy']}"])


def _docs_folder(run: Run) -> Path:
    return Path(run.settings.storage.output) / run.run_id / "data_docs"


def publish(frames: Frames, run: Run) -> None:
    """Write the Data Docs below the run's output folder."""
    rows = frames["quality_results"].orderBy("cluster_id", "table_name", "rule").collect()
    quality.write_data_docs([row.asDict() for row in rows], run_id=run.run_id, folder=_docs_folder(run))
