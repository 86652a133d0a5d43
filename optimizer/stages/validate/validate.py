"""Stage 2: bronze -> the clean tables, what was set aside, and the results of the quality gate."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.errors import QualityGateFailed
from optimizer.settings import Settings
from optimizer.stages.shared import throttles_found
from optimizer.stages.stage import Frames, Refusals, Run
from optimizer.stages.validate import cross_rules, great_expectations, judge, rule_table, silver, silver_brokers
from optimizer.stages.validate.input_findings import summed_up
from optimizer.stages.validate.judge import Judged
from optimizer.stages.validate.measures import Counted, measured
from optimizer.stages.validate.metric_rates import loads_in_window
from optimizer.stages.validate.metric_topics import from_records, resolve_topics
from optimizer.stages.validate.refusal import refusals
from optimizer.stages.validate.rule import set_aside
from schemas.bronze import INPUT_FINDINGS, QUALITY_RESULTS, QUARANTINE, SOURCES
from schemas.silver import BROKERS, LOG_DIRS, PARTITION_LOAD, REPLICAS, THROTTLES_FOUND, TOPICS
from schemas.spark import conform, schema_of, small_frame
from schemas.table import Table

_AT_ONCE = 3  # tables judged at the same time: Spark's jobs leave cores idle one by one


@dataclass(frozen=True)
class _Cleaned:
    """The clean tables, and the judged frames that they come from."""

    tables: Frames
    judged: tuple[Judged, ...]
    quarantine: DataFrame
    counted: Counted


@dataclass(frozen=True)
class _Hosts:
    """What is known about brokers; ``disks`` are the directories that each has now."""

    registered: Judged
    dirs: Judged
    disks: DataFrame
    brokers: Judged
    capacities: Judged


@dataclass(frozen=True)
class _Measures:
    """What metrics say of partitions, and of whole topics."""

    rates: DataFrame
    topic_rates: DataFrame
    judged: Judged
    doubtful: DataFrame


@dataclass(frozen=True)
class _OtherSources:
    """What the sources say beside placements."""

    sizes: Judged
    topics: Judged
    loads: Judged
    configs: Judged
    hosts: _Hosts
    measures: _Measures

    def judged(self) -> tuple[Judged, ...]:
        """Every judged frame, to be counted and quarantined."""
        hosts = (self.hosts.registered, self.hosts.dirs, self.hosts.brokers, self.hosts.capacities)
        return (*hosts, self.sizes, self.topics, self.loads, self.configs, self.measures.judged)


@dataclass(frozen=True)
class _Outcome:
    """The clean tables, and what was judged by them."""

    tables: Frames
    load: Judged
    held: Judged


def build(inputs: Frames, run: Run) -> Frames:
    """Type, judge and join the records of every cluster; then let Great Expectations judge the outcome."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cleaned = _clean(inputs, run.settings, pool)
    quarantine = cleaned.quarantine.transform(judge.kept)
    clusters = [cluster.id for cluster in run.settings.clusters]
    figures = measured(cleaned.counted, quarantine, run.settings, run.spark).toPandas()
    results = great_expectations.evaluate(cleaned.judged, figures, clusters=clusters, settings=run.settings)
    measures = [{str(name): value for name, value in row.items()} for row in figures.to_dict("records")]
    findings = summed_up(quarantine, results, measures, judged=cleaned.judged, settings=run.settings)
    told = throttles_found.findings_of(cleaned.tables["throttles_found"])
    return {
        **cleaned.tables,
        "quarantine": quarantine,
        "sources": sources_read(inputs),
        "quality_results": _driver_rows(results, QUALITY_RESULTS, run),
        "input_findings": _driver_rows(chain(findings, told), INPUT_FINDINGS, run),
    }


def _driver_rows(rows: Iterable[Mapping[str, Any]], table: Table, run: Run) -> DataFrame:
    named = [{**row, "run_id": run.run_id} for row in rows]
    return small_frame(run.spark, [{c: row[c] for c in table.names} for row in named], schema_of(table))


def _clean(inputs: Frames, settings: Settings, pool: Executor) -> _Cleaned:
    """Placements first: all else is judged against them, a few kinds at once (planning a query takes one core)."""
    records = inputs["bronze_records"].transform(judge.kept)
    placements = judge.judge_placements(records)
    moving = judge.judge_reassignments(records, placements.used)
    placed = silver.partitions_in_flight(placements.used, moving.used).transform(judge.kept)
    later_measures = pool.submit(_measures, inputs["bronze_metrics"], records, placed, settings)
    configured = judge.judge_configs(records)
    later_hosts = pool.submit(_hosts, records, placed, configured.used, settings)
    sizes, loads = judge.judge_sizes(records, placed), judge.judge_loads(records, placed)
    measures = later_measures.result()
    told = _OtherSources(
        sizes=sizes,
        topics=judge.judge_topics(records, placed, configured.used, measured=measures.rates, settings=settings),
        loads=loads,
        configs=configured,
        hosts=later_hosts.result(),
        measures=measures,
    )
    outcome = _outcome(placed, told, settings)
    of_others = (placements, moving, judge.judge_cluster_ids(records))
    judged = (*of_others, *told.judged(), outcome.load, outcome.held)
    aside = [*(set_aside(one.rows, one.rules) for one in judged), judge.malformed(records), told.measures.doubtful]
    return _Cleaned(
        tables=outcome.tables,
        judged=judged,
        quarantine=_quarantine(aside),
        counted=Counted(
            records=records,
            samples=inputs["bronze_metrics"],
            placed=placed,
            registered=told.hosts.registered.used,
            sizes=told.sizes.rows,
            topics=told.topics.rows,
            load=outcome.load.rows,
            held=outcome.held.rows,
        ),
    )


def _outcome(placed: DataFrame, told: _OtherSources, settings: Settings) -> _Outcome:
    """The clean tables, and what only they show."""
    hosts, sizes = told.hosts, told.sizes
    local = silver.local_sizes(sizes.used)
    logs = sizes.rows.where("ok_replica_size_readable")
    loads = silver.partition_load(
        placed,
        local,
        told.measures.rates,
        told.loads.used,
        topic_rates=told.measures.topic_rates,
        logs=logs,
        log_dirs=hosts.disks,
        brokers=hosts.brokers.rows,
    )
    load = judge.judge_coverage(loads, settings)
    replicas = conform(silver.replicas(placed, local), REPLICAS).transform(judge.kept)
    brokers = silver_brokers.brokers(hosts.brokers.rows, hosts.disks, hosts.capacities.used).transform(judge.kept)
    log_dirs = silver_brokers.log_dirs(hosts.disks, sizes.used, hosts.capacities.used)
    tables = {
        "brokers": conform(brokers, BROKERS),
        "log_dirs": conform(log_dirs, LOG_DIRS),
        "topics": conform(silver.topics(placed, told.topics.used, told.configs.used), TOPICS),
        "replicas": replicas,
        "partition_load": conform(load.rows, PARTITION_LOAD),
        "throttles_found": conform(throttles_found.build(told.topics.used, told.configs.used), THROTTLES_FOUND),
    }
    return _Outcome(tables, load, judge.judge_held(brokers, replicas, load.rows))


def _hosts(records: DataFrame, placed: DataFrame, configs: DataFrame, settings: Settings) -> _Hosts:
    registered = judge.judge_brokers(records)
    dirs = judge.judge_log_dirs(records)
    disks = dirs.used.where("ok_log_dir_is_disk AND is_newest")
    listed = registered.rows.where("ok_broker_id_legal")
    known = silver_brokers.known_brokers(listed, placed, disks, configs)
    brokers = judge.judged("brokers", known, (*rule_table.known_brokers(settings), *cross_rules.BROKERS))
    return _Hosts(registered, dirs, disks, brokers, judge.judge_capacities(records, brokers.rows, disks))


def _measures(bronze_metrics: DataFrame, records: DataFrame, placed: DataFrame, settings: Settings) -> _Measures:
    """Samples of files and text expositions under the topics' names, as rates; names that may mean several topics."""
    topics = placed.select("cluster_id", "run_id", "topic").distinct()
    named, doubtful = resolve_topics(bronze_metrics.unionByName(from_records(records)), topics)
    samples = named.transform(judge.kept)
    loads = loads_in_window(samples, settings.metrics).transform(judge.kept)
    rates = loads.where("partition IS NOT NULL")
    judged = judge.judge_metrics(samples, rates, placed)
    return _Measures(rates, loads.where("partition IS NULL"), judged, doubtful.transform(judge.kept))


def _quarantine(frames: Sequence[DataFrame]) -> DataFrame:
    """All that was set aside; a row that came twice is listed once."""
    rows = reduce(DataFrame.unionByName, frames)
    told = {name: F.min(name).alias(name) for name in ("severity", "reason", "remedy")}
    return conform(rows.groupBy(*QUARANTINE.full_key).agg(*told.values()), QUARANTINE)


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters of which a critical expectation failed.

    Each names what could not be read, then every cause with count, examples and remedy, then what may follow from it.
    """
    failed = frames["quality_results"].where("severity = 'critical' AND NOT success")
    rows = [row.asDict() for row in failed.orderBy("cluster_id", "table_name", "rule").collect()]
    if not rows:
        return {}
    end = f"all rows: table quarantine, run {run.run_id!r}; results: {_docs_folder(run) / 'index.html'}"
    texts = refusals(frames["quarantine"], rows, end=end)
    return {cluster: QualityGateFailed(text) for cluster, text in texts.items()}


def _docs_folder(run: Run) -> Path:
    return Path(run.settings.storage.output) / run.run_id / "data_docs"


def publish(frames: Frames, run: Run) -> None:
    """Write the Data Docs below the run's output folder."""
    rows = frames["quality_results"].orderBy("cluster_id", "table_name", "rule").collect()
    great_expectations.write_data_docs([row.asDict() for row in rows], run_id=run.run_id, folder=_docs_folder(run))


def sources_read(inputs: Frames) -> DataFrame:
    """Rows of ``sources``, of ``bronze_records`` and ``bronze_metrics``; samples have times of their own."""
    key = ("cluster_id", "run_id", "source")
    records = inputs["bronze_records"].select(*key, "captured_at")
    samples = inputs["bronze_metrics"].select(*key, F.lit(None).cast("timestamp").alias("captured_at"))
    both = records.unionByName(samples).groupBy(*key)
    return conform(both.agg(F.count("*").alias("records"), F.max("captured_at").alias("captured_at")), SOURCES)
