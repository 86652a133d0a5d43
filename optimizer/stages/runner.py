"""The seven stages, and the runner: it checks the inputs of a stage, runs it and records its outputs."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from optimizer.declared import DECLARED, NAMES, WRITERS
from optimizer.errors import BallastError, Unreadable, WorkerGone
from optimizer.meter import Meter
from optimizer.run_page import published_decisions, write_run_page
from optimizer.stages.baseline import baseline
from optimizer.stages.emit import emit
from optimizer.stages.ingest import ingest
from optimizer.stages.last_plans import cordons_left, going_on
from optimizer.stages.lineage import check_lineage
from optimizer.stages.plan import plan
from optimizer.stages.snapshot import snapshot
from optimizer.stages.solve import solve
from optimizer.stages.stage import Frames, Refusals, Run, Stage
from optimizer.stages.validate import great_expectations, validate
from optimizer.stages.verdicts import Attempt, Verdict, begin, check_not_approved, without_clusters
from optimizer.store import Store
from schemas.verdicts import NOTHING_TO_DO, PLANNED
from sources.kafka_live import unwrap_error

STAGES = (
    Stage(**vars(DECLARED["ingest"]), build=ingest.build, gate=ingest.gate),
    Stage(
        **vars(DECLARED["validate"]),
        build=validate.build,
        gate=validate.gate,
        report=validate.report,
        preload=great_expectations.load,
    ),
    Stage(**vars(DECLARED["snapshot"]), build=snapshot.build, gate=snapshot.gate),
    Stage(**vars(DECLARED["baseline"]), build=baseline.build),
    Stage(**vars(DECLARED["solve"]), build=solve.build),
    Stage(**vars(DECLARED["plan"]), build=plan.build, gate=plan.gate),
    Stage(**vars(DECLARED["emit"]), build=emit.build, gate=emit.gate, publish=emit.publish),
)
# Queries over more rows than this are compiled. With fewer rows compiling took a fifth of a run and saved nothing.
_MANY_ROWS = 100_000
_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def stages_named(names: Sequence[str]) -> tuple[Stage, ...]:
    """The stages with these names, in the pipeline's order."""
    return tuple(stage for stage in STAGES if stage.name in names)


@contextmanager
def _caches_cleared(run: Run) -> Iterator[None]:
    try:
        yield
    finally:
        run.spark.catalog.clearCache()


@contextmanager
def _plain_errors(stage: Stage) -> Iterator[None]:
    """Replace Spark's report of a failed task by its cause: the error of a live cluster, or a killed process."""
    try:
        yield
    except (BallastError, PySparkException, Py4JJavaError) as error:
        cause = error.__cause__ or error
        if WorkerGone.spark_message in str(cause):
            raise WorkerGone(f"stage {stage.name}") from error
        reported = unwrap_error(cause)
        if reported:
            raise reported from error
        raise


def _reads_many_rows(stage: Stage, run: Run, store: Store) -> bool:
    return any(store.row_count(table, run.run_id) > _MANY_ROWS for table in stage.reads)


def _compile_queries(run: Run) -> None:
    """Compile queries from now on; before, Spark interprets them (conf/spark-defaults.conf)."""
    for name, value in _COMPILED.items():
        run.spark.conf.set(name, value)


def run_stage(
    stage: Stage,
    run: Run,
    store: Store,
    *,
    stopped: Collection[str] = (),
    before_change: Callable[[], None] = lambda: None,
) -> Refusals:
    """Run one stage: check, read, build, write, gate, record, publish; return the clusters that it stops.

    A stage that stops all clusters is not recorded, so no later stage can run.

    Parameters
    ----------
    stopped : collection of str
        Clusters that earlier stages stopped; the stage does not get their rows.
    before_change : callable
        Called before rows of the run change and before files are published.

    Raises
    ------
    StageError
        When an earlier stage has not run, or the inputs do not belong together.
    RowsChanged
        When the inputs differ from what their stages wrote.
    Unreadable
        When no cluster can be read.
    """
    check_inputs(stage, run, store)
    reads = {table: store.recorded_version(table, run.run_id) for table in stage.reads}
    frames_read = {table: store.read(table, run_id=run.run_id) for table in stage.reads}
    inputs, active = _rows_without(frames_read, stopped), without_clusters(run, stopped)
    many = _reads_many_rows(stage, run, store)
    if many:
        _compile_queries(run)
    with _caches_cleared(run), _plain_errors(stage):
        frames, refused = _build(stage, inputs, active)
        store.begin(run_id=run.run_id, **run.about())
        few = bool(stage.reads) and not many
        writes = store.write_all(frames, run_id=run.run_id, few_rows=few, before_change=before_change)
        stored = {table: store.read(table, run_id=run.run_id) for table in writes}
        active = without_clusters(active, refused)
        if stage.report:
            stage.report({**inputs, **stored}, active.for_stage(stage))
        if stage.gate:
            refused |= stage.gate({**inputs, **stored}, active.for_stage(stage))
        active = without_clusters(active, refused)
        if not active.settings.clusters:
            return refused
        store.record_run(run_id=run.run_id, stage=stage.name, **run.about(), reads=reads, writes=writes)
        if stage.publish:
            before_change()
            stage.publish(_rows_without({**inputs, **stored}, refused), active.for_stage(stage))
    return refused


def check_inputs(stage: Stage, run: Run, store: Store) -> None:
    """Check the inputs of a stage. Rows that this process wrote are not read again.

    Raises
    ------
    StageError
        When an earlier stage has not run, or the inputs do not belong together.
    RowsChanged
        When the inputs differ from what their stages wrote.
    """
    for table in stage.reads:
        store.recorded_version(table, run.run_id)
    check_lineage(stage, run, store)
    store.check(stage.reads, run.run_id, code_version=run.code_version)


def _rows_without(frames: Frames, cluster_ids: Collection[str]) -> Frames:
    if not cluster_ids:
        return frames
    return {name: frame.where(~F.col("cluster_id").isin(*cluster_ids)) for name, frame in frames.items()}


def _build(stage: Stage, inputs: Frames, run: Run) -> tuple[Frames, dict[str, BallastError]]:
    """The frames of the clusters that can be read, and the errors of the others."""
    try:
        return stage.build(inputs, run.for_stage(stage)), {}
    except Unreadable as error:
        readable = without_clusters(run, error.errors)
        if not readable.settings.clusters:
            raise
        frames, more_errors = _build(stage, inputs, readable)
        return frames, {**error.errors, **more_errors}


def run_stages(stages: Sequence[Stage], run: Run, meter: Meter) -> Mapping[str, Verdict]:
    """Run and measure stages, one after the other in one Spark session; return the verdict of each cluster.

    An existing plan of the run, with its verdicts and files, stays until the first row changes.

    Raises
    ------
    BallastError
        When a stage fails for all clusters.
    """
    is_local = (run.spark.sparkContext.master or "").startswith("local")
    store = Store(run.settings.storage.warehouse, run.spark, keeps_rows=is_local)
    with ThreadPoolExecutor(1) as pool:
        for stage in stages:
            if stage.preload:
                pool.submit(stage.preload)
        check_not_approved(store, run)
        check_inputs(stages[0], run, store)
        store.check(_external_inputs(stages), run.run_id, code_version=run.code_version)
        store.ensure_existing()
        run = replace(run, started=going_on(store, run))
        if any("input_findings" in stage.writes for stage in stages):
            run = replace(run, cordons_left=cordons_left(store, run))
        attempt = begin(store, run, first_stage=stages[0].name)
        _report_all_stopped(attempt, meter)
        with _run_page_written(attempt, run, meter):
            for number, stage in enumerate(stages, start=1):
                if not attempt.active:
                    break
                with _verdicts_stored(attempt, stage, meter), meter.stage(stage.name, f"[{number}/{len(stages)}]"):
                    refused = run_stage(stage, run, store, stopped=attempt.stopped, before_change=attempt.start)
                    attempt.refuse(refused, stage.name)
                store.release(keep={table for later in stages[number:] for table in later.reads})
            if stages[-1].name == NAMES[-1]:
                attempt.settle({cluster: _verdict_of_plan(run, cluster) for cluster in attempt.active})
    return attempt.verdicts


@contextmanager
def _run_page_written(attempt: Attempt, run: Run, meter: Meter) -> Iterator[None]:
    """Write the page of the run at the end of an attempt that has changed something, even if it fails."""
    try:
        yield
    except BaseException:
        # The same error, such as a full disk, may stop this write, too.
        with suppress(OSError):
            _write_run_page(attempt, run)
        raise
    try:
        _write_run_page(attempt, run)
    except OSError as error:
        # The plans are stored and published, so the run has not failed.
        meter.stream.write(f"warning: the page of the run is not written ({error}): ./ballast report writes it\n")


def _write_run_page(attempt: Attempt, run: Run) -> None:
    if not attempt.has_started:
        return
    verdicts = {cluster: vars(verdict) for cluster, verdict in {**attempt.others, **attempt.verdicts}.items()}
    write_run_page(run.folder, run.run_id, verdicts, published_decisions(run.folder, verdicts))


def _external_inputs(stages: Sequence[Stage]) -> list[str]:
    """Tables that these stages read and other stages write."""
    names = {stage.name for stage in stages}
    return sorted({table for stage in stages for table in stage.reads if WRITERS[table] not in names})


@contextmanager
def _verdicts_stored(attempt: Attempt, stage: Stage, meter: Meter) -> Iterator[None]:
    """Store the verdicts after a stage, and print why it stopped clusters.

    If the stage refuses all clusters, delete the rows of all later stages. If it fails, ``fail`` deletes rows.
    """
    before = attempt.stopped
    try:
        yield
    except Unreadable as error:
        attempt.fail(error.errors, stage.name)
    except Exception as error:
        # The same error may stop this write, too: then the verdict stays `started`.
        with suppress(Exception):
            attempt.fail(dict.fromkeys(attempt.active, error), stage.name)
        _report_unchanged(attempt, meter)
        raise
    else:
        if not attempt.active:
            attempt.drop_after(stage.name)
    for cluster in sorted(attempt.stopped - before):
        prefix = f"cluster {cluster}: " if len(attempt.verdicts) > 1 else ""
        meter.stream.write(f"error: {prefix}{attempt.verdicts[cluster].reason}\n")
    if not attempt.active:
        _report_unchanged(attempt, meter)


def _report_all_stopped(attempt: Attempt, meter: Meter) -> None:
    """If an earlier stage of the attempt stopped all clusters, print why: nothing remains to be done."""
    if not attempt.active:
        for cluster, verdict in sorted(attempt.verdicts.items()):
            meter.stream.write(
                f"error: cluster {cluster} {verdict.summary()}: run the stage {verdict.stage!r} again first\n"
            )


def _report_unchanged(attempt: Attempt, meter: Meter) -> None:
    if not attempt.has_started:
        meter.forget()
        meter.stream.write("nothing was changed: the run keeps its earlier plan, verdict and files\n")


def _verdict_of_plan(run: Run, cluster_id: str) -> Verdict:
    decision = emit.decision_of_cluster(run, cluster_id)
    until = decision["valid_until"]
    return Verdict(
        verdict=PLANNED if emit.has_reassignment(run, cluster_id) else NOTHING_TO_DO,
        exit_code=0,
        reason=emit.missed_in_words(decision),
        manifest_sha256=emit.manifest_sha256(run, cluster_id),
        moved_bytes=round(decision["figures"]["moved_bytes"]["after"] or 0),
        valid_until=datetime.fromisoformat(until) if until else None,
    )
