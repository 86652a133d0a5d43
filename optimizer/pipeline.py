"""The seven stages, and the one runner that pins what they read and records what they wrote."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from optimizer.errors import BallastError, WorkerGone
from optimizer.frames import baseline, emit, ingest, plan, quality, snapshot, solve, validate
from optimizer.lineage import check_lineage
from optimizer.resources import Meter
from optimizer.stages import Run, Stage
from optimizer.store import Store
from sources.kafka_live import unwrapped

STAGES = (
    Stage("ingest", (), ("bronze_records", "bronze_metrics"), ingest.build, gate=ingest.gate),
    Stage(
        "validate",
        ("bronze_records", "bronze_metrics"),
        (
            "brokers",
            "log_dirs",
            "topics",
            "replicas",
            "partition_load",
            "throttles_found",
            "quarantine",
            "quality_results",
            "input_findings",
        ),
        validate.build,
        gate=validate.gate,
        publish=validate.publish,
        ahead=quality.load,
    ),
    Stage(
        "snapshot",
        ("brokers", "log_dirs", "topics", "replicas", "partition_load"),
        ("instance", "instance_brokers"),
        snapshot.build,
    ),
    Stage("baseline", ("instance", "instance_brokers"), ("baseline",), baseline.build),
    Stage(
        "solve",
        ("instance", "instance_brokers"),
        ("proposal", "moves", "leaders", "leader_bounds", "shard_results", "bounds", "curve", "findings"),
        solve.build,
    ),
    Stage(
        "plan",
        (
            "instance",
            "instance_brokers",
            "baseline",
            "proposal",
            "moves",
            "leaders",
            "leader_bounds",
            "bounds",
            "throttles_found",
        ),
        ("plan", "waves", "throttles", "broker_balance", "plan_summary"),
        plan.build,
        gate=plan.gate,
    ),
    Stage("emit", emit.READS, ("documents",), emit.build, gate=emit.gate, publish=emit.publish),
)
# Queries over more rows than these are compiled: on fewer, compiling took a fifth of a run and saved nothing.
_FEW_ROWS = 100_000
_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
NAMES = tuple(stage.name for stage in STAGES)


def stages_named(names: Sequence[str]) -> tuple[Stage, ...]:
    """The stages with these names, in the pipeline's order."""
    return tuple(stage for stage in STAGES if stage.name in names)


@contextmanager
def _released(run: Run) -> Iterator[None]:
    """Drop what a stage cached, whatever happens."""
    try:
        yield
    finally:
        run.spark.catalog.clearCache()


@contextmanager
def _plain_errors(stage: Stage) -> Iterator[None]:
    """What a live cluster's task raised, or that a process was ended, is the error: not Spark's report of the task."""
    try:
        yield
    except (BallastError, PySparkException, Py4JJavaError) as error:
        cause = error.__cause__ or error
        if WorkerGone.said_by_spark in str(cause):
            raise WorkerGone(f"stage {stage.name}") from error
        told = unwrapped(cause)
        if told:
            raise told from error
        raise


def _reads_many_rows(stage: Stage, run: Run, store: Store) -> bool:
    return any(store.rows(table, run.run_id) > _FEW_ROWS for table in stage.reads)


def _compile_for_many_rows(run: Run) -> None:
    """Queries are interpreted (conf/spark-defaults.conf) until a stage reads many rows."""
    for name, value in _COMPILED.items():
        run.spark.conf.set(name, value)


def run_stage(stage: Stage, run: Run, store: Store) -> None:
    """Run one stage: read pinned versions, write, gate, record, publish.

    A stage that its gate refuses is not recorded, so no later stage can go on from it.

    Raises
    ------
    StageError
        When an earlier stage has not run, or what the stage reads does not belong together.
    ConfigError, QualityGateFailed, AuditFailed
        From the stage's gate; its tables are written by then, its files are not.
    """
    reads = {table: store.pinned(table, run.run_id) for table in stage.reads}
    check_lineage(stage, run, store)
    inputs: dict[str, DataFrame] = {
        table: store.read(table, version=version, run_id=run.run_id) for table, version in reads.items()
    }
    many = _reads_many_rows(stage, run, store)
    if many:
        _compile_for_many_rows(run)
    about = {
        "code_version": run.code_version,
        "config_hash": run.settings.config_hash(),
        "config_json": run.settings.planning_json(),
    }
    with _released(run), _plain_errors(stage):
        frames = stage.build(inputs, run)
        store.begin(run_id=run.run_id, **about)
        writes = store.write_all(frames, run_id=run.run_id, few_rows=bool(stage.reads) and not many)
        stored = {table: store.read(table, version=version, run_id=run.run_id) for table, version in writes.items()}
        if stage.gate:
            stage.gate({**inputs, **stored}, run)
        store.record_run(run_id=run.run_id, stage=stage.name, **about, reads=reads, writes=writes)
        if stage.publish:
            stage.publish({**inputs, **stored}, run)


def run_stages(stages: Sequence[Stage], run: Run, meter: Meter) -> None:
    """Run stages one after the other in one session, measured one by one."""
    is_local = (run.spark.sparkContext.master or "").startswith("local")
    store = Store(run.settings.storage.warehouse, run.spark, keeps_rows=is_local)
    with ThreadPoolExecutor(1) as pool:
        for stage in stages:
            if stage.ahead:
                pool.submit(stage.ahead)
        for number, stage in enumerate(stages, start=1):
            with meter.stage(stage.name, f"[{number}/{len(stages)}]"):
                run_stage(stage, run, store)
            store.release(keep={table for later in stages[number:] for table in later.reads})
