"""Stage 2, validate: bronze tables -> silver tables, consumer tables, quarantine, quality_results, input_findings,
sources."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import CORDON_LEFT, Cause
from optimizer.errors import QualityGateFailed
from optimizer.folders import quality_page, write_page
from optimizer.settings import Settings
from optimizer.stages.shared import throttles_found
from optimizer.stages.stage import Frames, Refusals, Run
from optimizer.stages.validate import cross_rules, great_expectations, judge, rule_table, silver, silver_brokers
from optimizer.stages.validate.input_findings import input_findings
from optimizer.stages.validate.judge import Judged
from optimizer.stages.validate.measures import Counted, measured
from optimizer.stages.validate.metric_rates import loads_in_window
from optimizer.stages.validate.metric_topics import from_records, resolve_topics, with_brokers
from optimizer.stages.validate.quality_pages import pages
from optimizer.stages.validate.refusal import refusals
from optimizer.stages.validate.rule import quarantined
from optimizer.stages.validate.silver_consumers import consumers
from schemas.bronze import INPUT_FINDINGS, QUALITY_RESULTS, QUARANTINE, SOURCES
from schemas.silver import BROKERS, LOG_DIRS, PARTITION_LOAD, REPLICAS, THROTTLES_FOUND, TOPICS
from schemas.spark import compute_once, conform, schema_of, small_frame
from schemas.table import Table
from sources.record import STATE_KINDS

_AT_ONCE = 3  # tables judged at the same time: a single Spark job leaves cores idle


@dataclass(frozen=True)
class _Cleaned:
    """The silver tables, and the judged frames that they come from."""

    tables: Frames
    judged: tuple[Judged, ...]
    quarantine: DataFrame
    counted: Counted


@dataclass(frozen=True)
class _Hosts:
    """Judged rows about brokers; ``disks`` are the directories that each broker has now."""

    registered: Judged
    dirs: Judged
    disks: DataFrame
    brokers: Judged
    capacities: Judged


@dataclass(frozen=True)
class _Measures:
    """Rates from metrics, of partitions and of whole topics; ``ambiguous`` has names that may mean several topics."""

    rates: DataFrame
    topic_rates: DataFrame
    judged: Judged
    ambiguous: DataFrame


@dataclass(frozen=True)
class _Facts:
    """Everything that the sources say, except the placements."""

    sizes: Judged
    topics: Judged
    loads: Judged
    offsets: Judged
    configs: Judged
    hosts: _Hosts
    measures: _Measures

    def judged(self) -> tuple[Judged, ...]:
        """All judged frames."""
        hosts = (self.hosts.registered, self.hosts.dirs, self.hosts.brokers, self.hosts.capacities)
        return (*hosts, self.sizes, self.topics, self.loads, self.offsets, self.configs, self.measures.judged)


@dataclass(frozen=True)
class _Outcome:
    """The silver tables, and the frames that are judged with them."""

    tables: Frames
    load: Judged
    held: Judged


def build(inputs: Frames, run: Run) -> Frames:
    """Parse, judge and join the records of every cluster; then validate the result with Great Expectations."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cleaned = _clean(inputs, run.settings, pool)
    quarantine = cleaned.quarantine.transform(compute_once)
    clusters = [cluster.id for cluster in run.settings.clusters]
    figures = measured(cleaned.counted, quarantine, run.settings, run.spark).toPandas()
    results = great_expectations.evaluate(cleaned.judged, figures, clusters=clusters, settings=run.settings)
    measures = [{str(name): value for name, value in row.items()} for row in figures.to_dict("records")]
    findings = input_findings(quarantine, results, measures, judged=cleaned.judged, settings=run.settings)
    of_throttles = throttles_found.findings_of(cleaned.tables["throttles_found"])
    of_cordons = _of_cordons(run, cleaned.tables["brokers"])
    return {
        **cleaned.tables,
        "quarantine": quarantine,
        "sources": sources_read(inputs),
        "quality_results": _driver_rows(results, QUALITY_RESULTS, run),
        "input_findings": _driver_rows(chain(findings, of_throttles, of_cordons), INPUT_FINDINGS, run),
    }


def _of_cordons(run: Run, brokers: DataFrame) -> Iterator[dict[str, Any]]:
    """Rows of ``input_findings`` without run id, about brokers that an earlier plan has left closed.

    Not if the snapshot does not show it: somebody may have deleted the config by hand.
    """
    if not run.cordons_left:
        return
    rows = brokers.where(F.col("closed_cause") == Cause.CORDONED.value).select("cluster_id", "broker_id").collect()
    closed = {(row.cluster_id, row.broker_id) for row in rows}
    for cluster_id, cordon in run.cordons_left:
        if (cluster_id, cordon.broker) not in closed:
            continue
        yield {
            "cluster_id": cluster_id,
            "rule": CORDON_LEFT,
            "standing": "noted",
            "subject": f"broker {cordon.broker}",
            "detail": f"run {cordon.run_id} cordoned it to empty it, and the policy does not empty it now",
            "remedy": f"./ballast uncordon {cordon.broker} --cluster {cluster_id}, then plan again: until then it gets "
            "no replica",
            "rows": 1,
        }


def _driver_rows(rows: Iterable[Mapping[str, Any]], table: Table, run: Run) -> DataFrame:
    named = [{**row, "run_id": run.run_id} for row in rows]
    return small_frame(run.spark, [{c: row[c] for c in table.names} for row in named], schema_of(table))


def _clean(inputs: Frames, settings: Settings, pool: Executor) -> _Cleaned:
    """Judge placements first, because all other kinds are judged against them; then several kinds in parallel."""
    records = inputs["bronze_records"].transform(compute_once)
    placements = judge.judge_placements(records)
    reassignments = judge.judge_reassignments(records, placements.used)
    placed = silver.partitions_in_flight(placements.used, reassignments.used).transform(compute_once)
    later_measures = pool.submit(_measures, inputs["bronze_metrics"], records, placed, settings)
    configs = judge.judge_configs(records)
    later_hosts = pool.submit(_hosts, records, placed, configs.used, settings)
    later_consumers = pool.submit(consumers, records, placed)
    sizes, loads = judge.judge_sizes(records, placed), judge.judge_loads(records, placed)
    measures = later_measures.result()
    facts = _Facts(
        sizes=sizes,
        topics=judge.judge_topics(records, placed, configs.used, measured=measures.rates, settings=settings),
        loads=loads,
        offsets=judge.judge_offsets(records, placed),
        configs=configs,
        hosts=later_hosts.result(),
        measures=measures,
    )
    outcome, readers = _outcome(placed, facts, settings), later_consumers.result()
    judged = (
        *(placements, reassignments, judge.judge_cluster_ids(records)),
        *facts.judged(),
        *(outcome.load, outcome.held),
        *readers.judged,
    )
    broken = [quarantined(frame.rows, frame.rules) for frame in judged]
    return _Cleaned(
        tables={**outcome.tables, **readers.tables},
        judged=judged,
        quarantine=_quarantine([*broken, judge.malformed(records), measures.ambiguous]),
        counted=Counted(
            records=records,
            samples=inputs["bronze_metrics"],
            placed=placed,
            registered=facts.hosts.registered.used,
            sizes=facts.sizes.rows,
            topics=facts.topics.rows,
            load=outcome.load.rows,
            held=outcome.held.rows,
        ),
    )


def _outcome(placed: DataFrame, facts: _Facts, settings: Settings) -> _Outcome:
    hosts, sizes = facts.hosts, facts.sizes
    local = silver.local_sizes(sizes.used)
    logs = sizes.rows.where("ok_replica_size_readable")
    loads = silver.partition_load(
        placed,
        local,
        facts.measures.rates,
        facts.loads.used,
        topic_rates=facts.measures.topic_rates,
        offsets=facts.offsets.used,
        logs=logs,
        log_dirs=hosts.disks,
        brokers=hosts.brokers.rows,
    )
    load = judge.judge_coverage(loads, settings)
    replicas = conform(silver.replicas(placed, local), REPLICAS).transform(compute_once)
    brokers = silver_brokers.brokers(hosts.brokers.rows, hosts.disks, hosts.capacities.used)
    brokers = brokers.transform(compute_once)
    log_dirs = silver_brokers.log_dirs(hosts.disks, sizes.used, hosts.capacities.used, hosts.brokers.rows)
    tables = {
        "brokers": conform(brokers, BROKERS),
        "log_dirs": conform(log_dirs, LOG_DIRS),
        "topics": conform(silver.topics(placed, facts.topics.used, facts.configs.used), TOPICS),
        "replicas": replicas,
        "partition_load": conform(load.rows, PARTITION_LOAD),
        "throttles_found": conform(throttles_found.build(facts.topics.used, facts.configs.used), THROTTLES_FOUND),
    }
    return _Outcome(tables, load, judge.judge_held(brokers, replicas, load.rows))


def _hosts(records: DataFrame, placed: DataFrame, configs: DataFrame, settings: Settings) -> _Hosts:
    registered = judge.judge_brokers(records)
    dirs = judge.judge_log_dirs(records)
    disks = dirs.used.where("ok_log_dir_is_disk AND is_newest")
    listed = registered.rows.where("ok_broker_id_legal")
    known = silver_brokers.known_brokers(listed, placed, disks, configs)
    brokers = judge.judge_rows("brokers", known, (*rule_table.known_brokers(settings), *cross_rules.BROKERS))
    return _Hosts(registered, dirs, disks, brokers, judge.judge_capacities(records, brokers.rows, disks))


def _measures(bronze_metrics: DataFrame, records: DataFrame, placed: DataFrame, settings: Settings) -> _Measures:
    """Rates from the samples of metric files and text expositions."""
    topics = placed.select("cluster_id", "run_id", "topic").distinct()
    exported = with_brokers(bronze_metrics.unionByName(from_records(records)), settings.clusters)
    named, ambiguous = resolve_topics(exported, topics)
    samples = named.transform(compute_once)
    loads = loads_in_window(samples, settings.metrics, settings.schedule.windows).transform(compute_once)
    rates = loads.where("partition IS NOT NULL")
    judged = judge.judge_metrics(samples, rates, placed)
    return _Measures(rates, loads.where("partition IS NULL"), judged, ambiguous.transform(compute_once))


def _quarantine(frames: Sequence[DataFrame]) -> DataFrame:
    """All quarantined rows; equal rows are listed once."""
    rows = reduce(DataFrame.unionByName, frames)
    values = [F.min(name).alias(name) for name in ("severity", "reason", "remedy")]
    return conform(rows.groupBy(*QUARANTINE.full_key).agg(*values), QUARANTINE)


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters with a failed critical expectation.

    Each message lists the unreadable input, then every cause with count, examples and remedy, then possible
    consequences.
    """
    failed = frames["quality_results"].where("severity = 'critical' AND NOT success")
    rows = [row.asDict() for row in failed.orderBy("cluster_id", "table_name", "rule").collect()]
    if not rows:
        return {}
    texts = refusals(frames["quarantine"], rows, end=lambda cluster: _where_details_are(run, cluster))
    return {cluster: QualityGateFailed(text) for cluster, text in texts.items()}


def _where_details_are(run: Run, cluster_id: str) -> str:
    return f"all rows: table quarantine, run {run.run_id!r}; results: {quality_page(run.folder, cluster_id)}"


def report(frames: Frames, run: Run) -> None:
    """Write the quality page of every cluster, below the run's output folder."""
    for cluster, text in pages(frames, run.run_id).items():
        write_page(quality_page(run.folder, cluster), text)


def sources_read(inputs: Frames) -> DataFrame:
    """Rows of ``sources``. Metrics have no time of capture: each sample has its own time."""
    key = ("cluster_id", "run_id", "source")
    kafka_id = F.when(F.col("kind") == "cluster_id", F.get_json_object("payload", "$.kafka_cluster_id"))
    records = inputs["bronze_records"].select(
        *(*key, "captured_at", F.col("kind").isin(*STATE_KINDS).alias("has_state")),
        kafka_id.alias("kafka_cluster_id"),
    )
    samples = inputs["bronze_metrics"].select(
        *(*key, F.lit(None).cast("timestamp").alias("captured_at"), F.lit(False).alias("has_state")),
        F.lit(None).cast("string").alias("kafka_cluster_id"),
    )
    newest = [F.max(name).alias(name) for name in ("captured_at", "has_state", "kafka_cluster_id")]
    both = records.unionByName(samples).groupBy(*key)
    return conform(both.agg(F.count("*").alias("records"), *newest), SOURCES)
