"""Stage 1, ingest: folders and live clusters -> bronze_records, bronze_metrics.

A cluster is read from a folder (every file in it, whatever its name), from a live cluster, or from both. Rows that
can't be read become records of kind ``malformed``: validate quarantines them with the reason.

Reassignment JSON is not always the state of a cluster. ``--generate`` prints the current assignment under a heading:
that is the state. Bare JSON may also be a plan, a saved rollback, or a part of the output of ``--execute``. The output
of ``--execute`` shows the replicas before a reassignment, without its target. It is left out if descriptions were taken
after it; otherwise it is refused.
"""

import json
from datetime import UTC, datetime
from fnmatch import translate
from functools import reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from optimizer.errors import BallastError, ConfigError, InputError, Unreadable
from optimizer.inputs import TABLES, empty_folder, folder_remedy, missing_folder
from optimizer.planning.policy.refusals import names_any, unknown_instances, unknown_names
from optimizer.settings import ClusterInput
from optimizer.stages.ingest.listing import TEXT_BYTES, File, copies_of, files_of, hidden_files, root_of
from optimizer.stages.ingest.metric_files import HEAD_LINES, literal_path, read_metrics
from optimizer.stages.ingest.texts import parse_texts, report_hidden, report_unopened
from optimizer.stages.shared.known_names import known_instances, known_of_records
from optimizer.stages.shared.sql_words import agree, plural
from optimizer.stages.stage import Frames, Refusals, Run
from schemas.bronze import BRONZE_METRICS, BRONZE_RECORDS
from schemas.spark import compute_once, conform, schema_of, small_frame
from sources import kafka_live, metrics_csv
from sources.record import ALLOWED_FILE, NOT_STATE, UNREADABLE_FILE
from sources.refused_formats import CONSUMER_FILE

_DOCUMENT_KEY = ("cluster_id", "run_id", "source", "captured_at", "written_at", "begun")
_PARTITION = ("topic", "partition")
_ASSIGNMENT_FIELDS = (
    "topic STRING, partition STRING, replicas ARRAY<STRING>, adding ARRAY<STRING>, bare BOOLEAN, begun BOOLEAN"
)
# SQL of the reasons; a number of replica lists comes before each.
_BEFORE_MOVE = agree("lists", "shows", "show") + ", ' the state before a reassignment, without its target'"
_NOT_USED = (
    "'of bare reassignment JSON ', "
    + agree("lists", "is", "are")
    + ", ' not used, because other files describe the partitions'"
)
_MAY_BE_A_PLAN = "'of bare reassignment JSON may be a plan that was not executed, or the state before a reassignment'"
_LEAVE_OUT = "nothing to do: the descriptions count; leave plan documents out of the folder"
_ALLOW_ASSIGNMENT = (
    "give kafka-topics.sh --describe; or, if this is the state, set [quality] assignment_is_state = true"
)
_COLLECT_STATE = (
    "run kafka-topics.sh --describe and kafka-reassign-partitions.sh --list now, and leave this file out of the folder"
)


def build(inputs: Frames, run: Run) -> Frames:
    """Read every cluster of the configuration.

    Raises
    ------
    ConfigError
        When the configuration names no cluster.
    Unreadable
        When a folder is missing or empty, or a live cluster does not answer; the error names each such cluster.
    """
    if not run.settings.clusters:
        raise ConfigError("no cluster is configured: add a [[clusters]] table, or give --input FOLDER")
    clusters = _read_clusters(run)
    records = reduce(DataFrame.unionByName, [frame for records, _ in clusters for frame in records])
    metrics = reduce(
        DataFrame.unionByName, [frame for _, metrics in clusters for frame in metrics], _no_metrics(run.spark)
    )
    return {"bronze_records": records, "bronze_metrics": metrics}


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters whose settings name unknown brokers, racks or instances; later stages would find this minutes later."""
    policies = run.settings.cluster_policies()
    tables = {cluster.id: cluster.instances for cluster in run.settings.clusters if cluster.instances}
    if not tables and not any(map(names_any, policies.values())):
        return {}
    known = known_of_records(frames["bronze_records"])
    exported = known_instances(frames) if tables else {}
    refusals = {
        cluster_id: unknown_names(cluster_id, names, policies[cluster_id])
        or unknown_instances(cluster_id, names, tables.get(cluster_id, ()), exported.get(cluster_id, ()))
        for cluster_id, names in known.items()
    }
    return {cluster_id: error for cluster_id, error in refusals.items() if error}


def _read_clusters(run: Run) -> list[tuple[list[DataFrame], list[DataFrame]]]:
    """Records and samples of every cluster; raises one error for all clusters that can't be read."""
    read, failed = [], {}
    for cluster in run.settings.clusters:
        try:
            read.append(_read_cluster(run, cluster))
        except BallastError as error:
            failed[cluster.id] = error
    if failed:
        raise Unreadable(failed)
    return read


def _read_cluster(run: Run, cluster: ClusterInput) -> tuple[list[DataFrame], list[DataFrame]]:
    """Records and metric samples of one cluster, from all its sources."""
    records: list[DataFrame] = []
    metrics: list[DataFrame] = []
    if cluster.input:
        files = _files(run.spark, cluster)
        copies, allowed = copies_of(files), run.settings.quality.allow_unreadable_files
        tables = [file.path for file in files if file.path not in copies and _is_metrics(run.spark, file.path)]
        captured_at = _captured_at(cluster, files)
        not_tables = [file for file in files if file.path not in tables]
        unopened = [file for file in not_tables if not 0 < file.size_bytes <= TEXT_BYTES]
        texts = [file.path for file in not_tables if file not in unopened]
        if hidden := hidden_files(run.spark, cluster.input):
            records.append(_as_bronze(report_hidden(run.spark, hidden), run, cluster, captured_at))
        if unopened:
            reports = report_unopened(run.spark, unopened, cluster.input, allowed=allowed)
            records.append(_as_bronze(reports, run, cluster, captured_at))
        if texts:
            parsed = parse_texts(run.spark, texts, cluster.input, copies=copies, allowed=allowed)
            records.append(_as_bronze(parsed, run, cluster, captured_at))
        if tables:
            samples, broken = read_metrics(
                run.spark, tables, cluster_id=cluster.id, run_id=run.run_id, root=root_of(tables[0], cluster.input)
            )
            metrics.append(samples)
            records.append(_as_bronze(_as_malformed(broken, allowed=allowed), run, cluster, captured_at))
    if cluster.bootstrap_servers:
        now = datetime.now(tz=UTC).replace(microsecond=0)
        live = _live(run, cluster, at_once=len(run.settings.clusters) > 1)
        records.append(_as_bronze(live, run, cluster, now))
    if cluster.input and any(file.has_replicas for file in files):
        are_state = run.settings.quality.assignment_is_state
        records = [without_plan_documents(reduce(DataFrame.unionByName, records), are_state=are_state)]
    return records, metrics


def _no_metrics(spark: SparkSession) -> DataFrame:
    return small_frame(spark, [], schema_of(BRONZE_METRICS))


def _as_bronze(frame: DataFrame, run: Run, cluster: ClusterInput, captured_at: datetime) -> DataFrame:
    identified = {
        "cluster_id": F.lit(cluster.id),
        "run_id": F.lit(run.run_id),
        "captured_at": F.lit(captured_at),
    }
    if "written_at" not in frame.columns:
        identified["written_at"] = F.lit(None)
    return conform(frame.withColumns(identified), BRONZE_RECORDS)


def _files(spark: SparkSession, cluster: ClusterInput) -> list[File]:
    """Files of the folder and its subfolders, by path; without ``hidden_files``."""
    try:
        files = files_of(spark, cluster.input)
    except AnalysisException as error:
        raise missing_folder(cluster) from error
    except (PySparkException, Py4JJavaError) as error:
        message = f"the folder {cluster.input} can't be read ({type(error).__name__}): {folder_remedy(cluster)}"
        raise InputError(message) from error
    if not files:
        raise empty_folder(cluster)
    return files


def _captured_at(cluster: ClusterInput, files: list[File]) -> datetime:
    """Time of the outputs: the configured one, else the time of the newest file; in whole seconds (UTC)."""
    if not cluster.captured_at:
        newest = max(file.modified for file in files)
        return newest.replace(microsecond=0).astimezone(UTC)
    given = datetime.fromisoformat(cluster.captured_at)
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).astimezone(UTC)


def _is_metrics(spark: SparkSession, path: str) -> bool:
    """Whether a file is a table of metrics: Parquet, or a CSV with a topic and a partition in its first line.

    A file that Spark can't read to its end (a truncated archive, damaged pages) counts as text and is refused there.
    """
    try:
        if path.endswith(".parquet"):
            table = spark.read.parquet(literal_path(path))
            table.write.format("noop").mode("overwrite").save()
            return bool(table.columns)
        if not path.endswith(TABLES):
            return False
        text = spark.read.text(literal_path(path))
        if path.endswith(".gz"):
            text.count()
        lines = [row.value.strip() for row in text.head(HEAD_LINES)]
    except (PySparkException, Py4JJavaError):
        return False
    header = next((line for line in lines if line and not line.startswith("#")), "")
    return metrics_csv.recognises(header)


def _as_malformed(broken: DataFrame, *, allowed: tuple[str, ...]) -> DataFrame:
    """Quarantined rows of the metrics as records of kind ``malformed``."""
    fields = {"expected": F.lit("a metric sample"), "is_sample": F.lit(True)}
    fields |= {name: F.col(name) for name in ("rule", "severity", "reason", "remedy")}
    patterns = (F.col("source").rlike(translate(pattern)) for pattern in allowed)
    may_stay = (F.col("rule") == UNREADABLE_FILE) & reduce(Column.__or__, patterns, F.lit(False))
    is_optional = (F.col("rule") == UNREADABLE_FILE) & F.col("source").rlike(CONSUMER_FILE)
    fields["rule"] = F.when(may_stay, F.lit(ALLOWED_FILE)).otherwise(F.col("rule"))
    fields["severity"] = F.when(may_stay | is_optional, F.lit("warning")).otherwise(F.col("severity"))
    text = F.substring("payload", 1, 2000).alias("text")
    payload = F.to_json(F.struct(*(value.alias(name) for name, value in fields.items()), text))
    order = Window.partitionBy("source").orderBy("line", "rule", "payload")
    return broken.select(
        (F.row_number().over(order) - 1).alias("ordinal"),
        F.lit("malformed").alias("kind"),
        "source",
        F.col("line").cast("int").alias("line"),
        payload.alias("payload"),
    )


def _live(run: Run, cluster: ClusterInput, *, at_once: bool) -> DataFrame:
    """Records of a live cluster. Client properties are passed as the path of their file: options are not secret.

    ``at_once``: read the cluster now, so that an error is reported for this cluster only.
    """
    kafka_live.register(run.spark)
    reader = run.spark.read.format(kafka_live.FORMAT).options(
        **{
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks.one.topics": json.dumps(run.settings.policy.acks_one_topics),
        }
    )
    if cluster.client_config:
        reader = reader.option("client.config", cluster.client_config)
    order = Window.partitionBy("source").orderBy("kind", "payload", "line")
    try:
        records = reader.load().withColumn("ordinal", F.row_number().over(order) - 1)
        return compute_once(records) if at_once else records
    except (PySparkException, Py4JJavaError) as error:
        message = f"cannot read kafka://{cluster.bootstrap_servers}: {str(error).splitlines()[0]}"
        raise kafka_live.unwrap_error(error) or InputError(message) from error


def without_plan_documents(records: DataFrame, *, are_state: bool) -> DataFrame:
    """The records of one cluster without reassignment JSON that is not its state.

    Each source of such JSON gets one record of kind ``malformed`` instead.

    Parameters
    ----------
    records : DataFrame
        Rows of bronze_records from all sources of the cluster.
    are_state : bool
        Whether bare reassignment JSON is the state.
    """
    known = compute_once(records)
    fields = F.from_json("payload", _ASSIGNMENT_FIELDS)
    parsed = known.withColumn("fields", fields).select("*", "fields.*").drop("fields")
    flags = {name: F.coalesce(name, F.lit(False)) for name in ("begun", "bare")}
    flagged = parsed.withColumns(flags).withColumn("is_assignment", F.col("kind") == "assignment")
    is_plan = F.col("is_assignment") & (F.col("begun") | (F.col("bare") & F.lit(not are_state)))
    described = parsed.where("kind = 'partition'").limit(1).count() > 0
    state = flagged.where(~is_plan).select(known.columns)
    return state.unionByName(_malformed_plans(flagged.where(is_plan), parsed, described=described))


def _malformed_plans(plans: DataFrame, parsed: DataFrame, *, described: bool) -> DataFrame:
    """One malformed record for each source of plans; a warning if other records have the state."""
    current = parsed.where("kind IN ('partition', 'reassignment')").select(
        *_PARTITION,
        F.col("replicas").alias("now_on"),
        ((F.col("kind") == "reassignment") | (F.size("adding") > 0)).alias("in_flight"),
    )
    moved = F.coalesce((F.col("now_on") != F.col("replicas")) | F.col("in_flight"), F.lit(False))
    of_source = (
        plans.join(current, list(_PARTITION), "left")
        .groupBy(*_DOCUMENT_KEY)
        .agg(
            F.min(F.struct("ordinal", "line")).alias("first"),
            F.count_distinct("ordinal").alias("lists"),
            F.max(moved).alias("is_moved"),
        )
    )
    harmless = F.when(F.col("begun"), F.col("is_moved")).otherwise(F.lit(described))
    return conform(
        of_source.select(
            *_DOCUMENT_KEY[:-1],
            "first.*",
            F.lit("malformed").alias("kind"),
            _plan_payload(harmless).alias("payload"),
        ),
        BRONZE_RECORDS,
    )


def _plan_payload(harmless: Column) -> Column:
    lists, reasons = plural("lists", "replica list"), (_BEFORE_MOVE, _NOT_USED, _MAY_BE_A_PLAN)
    before_move, not_used, may_be_a_plan = (F.expr(f"concat({lists}, ' ', {words})") for words in reasons)
    reason = F.when(F.col("begun"), before_move).when(harmless, not_used).otherwise(may_be_a_plan)
    remedy = (
        F.when(harmless, F.lit(_LEAVE_OUT))
        .when(F.col("begun"), F.lit(_COLLECT_STATE))
        .otherwise(F.lit(_ALLOW_ASSIGNMENT))
    )
    fields = {
        "expected": F.lit("the state of the cluster"),
        "reason": reason,
        "remedy": remedy,
        "rule": F.lit(NOT_STATE),
        "severity": F.when(harmless, F.lit("warning")).otherwise(F.lit("error")),
        "text": F.lit(""),
    }
    return F.to_json(F.struct(*(value.alias(name) for name, value in fields.items())))
