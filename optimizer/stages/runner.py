"""The seven stages, and the one runner that checks what they read and records what they wrote."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from optimizer.declared import DECLARED, NAMES, WRITERS
from optimizer.errors import BallastError, Unreadable, WorkerGone
from optimizer.meter import Meter
from optimizer.stages.baseline import baseline
from optimizer.stages.emit import emit
from optimizer.stages.ingest import ingest
from optimizer.stages.lineage import check_lineage
from optimizer.stages.plan import plan
from optimizer.stages.snapshot import snapshot
from optimizer.stages.solve import solve
from optimizer.stages.stage import Frames, Refusals, Run, Stage
from optimizer.stages.validate import great_expectations, validate
from optimizer.stages.verdicts import Attempt, Verdict, begin, check_not_approved, without
from optimizer.store import Store
from schemas.verdicts import NOTHING_TO_DO, PLANNED
from sources.kafka_live import unwrapped

STAGES = (
    Stage(**vars(DECLARED["ingest"]), build=ingest.build, gate=ingest.gate),
    Stage(
        **vars(DECLARED["validate"]),
        build=validate.build,
        gate=validate.gate,
        report=validate.publish,
        ahead=great_expectations.load,
    ),
    Stage(**vars(DECLARED["snapshot"]), build=snapshot.build, gate=snapshot.gate),
    Stage(**vars(DECLARED["baseline"]), build=baseline.build),
    Stage(**vars(DECLARED["solve"]), build=solve.build),
    Stage(**vars(DECLARED["plan"]), build=plan.build, gate=plan.gate),
    Stage(**vars(DECLARED["emit"]), build=emit.build, gate=emit.gate, publish=emit.publish),
)
# Queries over more rows than these are compiled: on fewer, compiling took a fifth of a run and saved nothing.
_MANY_ROWS = 100_000
_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


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
    return any(store.rows(table, run.run_id) > _MANY_ROWS for table in stage.reads)


def _compile_for_many_rows(run: Run) -> None:
    """Queries are interpreted (conf/spark-defaults.conf) until a stage reads many rows."""
    for name, value in _COMPILED.items():
        run.spark.conf.set(name, value)


def run_stage(
    stage: Stage,
    run: Run,
    store: Store,
    *,
    out: Collection[str] = (),
    before_change: Callable[[], None] = lambda: None,
) -> Refusals:
    """Run one stage: check and read, write, gate, record, publish; returns the clusters that it stops.

    A stage that stops all clusters is not recorded, so no later stage can go on from it.

    Parameters
    ----------
    out : collection of str
        Clusters that were stopped before; the stage does not see them.
    before_change : callable
        Called before rows of the run change and before files are published.

    Raises
    ------
    StageError
        When an earlier stage has not run, or what the stage reads does not belong together.
    RowsChanged
        When somebody changed what the stage reads.
    Unreadable
        When no cluster can be read.
    """
    check_inputs(stage, run, store)
    reads = {table: store.pinned(table, run.run_id) for table in stage.reads}
    seen = {table: store.read(table, run_id=run.run_id) for table in stage.reads}
    inputs, inside = _rows_without(seen, out), without(run, out)
    many = _reads_many_rows(stage, run, store)
    if many:
        _compile_for_many_rows(run)
    with _released(run), _plain_errors(stage):
        frames, refused = _built(stage, inputs, inside)
        store.begin(run_id=run.run_id, **run.about())
        few = bool(stage.reads) and not many
        writes = store.write_all(frames, run_id=run.run_id, few_rows=few, before_change=before_change)
        stored = {table: store.read(table, run_id=run.run_id) for table in writes}
        inside = without(inside, refused)
        if stage.report:
            stage.report({**inputs, **stored}, inside.seen_by(stage))
        if stage.gate:
            refused |= stage.gate({**inputs, **stored}, inside.seen_by(stage))
        inside = without(inside, refused)
        if not inside.settings.clusters:
            return refused
        store.record_run(run_id=run.run_id, stage=stage.name, **run.about(), reads=reads, writes=writes)
        if stage.publish:
            before_change()
            stage.publish(_rows_without({**inputs, **stored}, refused), inside.seen_by(stage))
    return refused


def check_inputs(stage: Stage, run: Run, store: Store) -> None:
    """Check whether the stage can go on from what is there; what this process wrote needs no check of its rows.

    Raises
    ------
    StageError
        When an earlier stage has not run, or what the stage reads does not belong together.
    RowsChanged
        When somebody changed what the stage reads.
    """
    for table in stage.reads:
        store.pinned(table, run.run_id)
    check_lineage(stage, run, store)
    store.check(stage.reads, run.run_id, code_version=run.code_version)


def _rows_without(frames: Frames, out: Collection[str]) -> Frames:
    """The rows of all clusters but some."""
    if not out:
        return frames
    return {name: frame.where(~F.col("cluster_id").isin(*out)) for name, frame in frames.items()}


def _built(stage: Stage, inputs: Frames, run: Run) -> tuple[Frames, dict[str, BallastError]]:
    """The frames of all clusters that can be read, and why the others can't."""
    try:
        return stage.build(inputs, run.seen_by(stage)), {}
    except Unreadable as error:
        left = without(run, error.errors)
        if not left.settings.clusters:
            raise
        frames, others = _built(stage, inputs, left)
        return frames, {**error.errors, **others}


def run_stages(stages: Sequence[Stage], run: Run, meter: Meter) -> Mapping[str, Verdict]:
    """Run stages one after the other in one session, measured one by one; returns how each cluster stands.

    The plan that the run has already, with its verdict and its files, stays until the first row changes.

    Raises
    ------
    BallastError
        What ended a stage for all clusters.
    """
    is_local = (run.spark.sparkContext.master or "").startswith("local")
    store = Store(run.settings.storage.warehouse, run.spark, keeps_rows=is_local)
    with ThreadPoolExecutor(1) as pool:
        for stage in stages:
            if stage.ahead:
                pool.submit(stage.ahead)
        check_not_approved(store, run)
        check_inputs(stages[0], run, store)
        store.check(_from_others(stages), run.run_id, code_version=run.code_version)
        store.grow(table for stage in stages for table in stage.writes)
        attempt = begin(store, run, first_stage=stages[0].name)
        _say_who_is_out(attempt, meter)
        for number, stage in enumerate(stages, start=1):
            if not attempt.going_on:
                break
            with _settled(attempt, stage, meter), meter.stage(stage.name, f"[{number}/{len(stages)}]"):
                refused = run_stage(stage, run, store, out=attempt.out, before_change=attempt.start)
                attempt.refuse(refused, stage.name)
            store.release(keep={table for later in stages[number:] for table in later.reads})
    if stages[-1].name == NAMES[-1]:
        attempt.settle({cluster: _published(run, cluster) for cluster in attempt.going_on})
    return attempt.verdicts


def _from_others(stages: Sequence[Stage]) -> list[str]:
    """Tables that some stages read, and none of them writes."""
    names = {stage.name for stage in stages}
    return sorted({table for stage in stages for table in stage.reads if WRITERS[table] not in names})


@contextmanager
def _settled(attempt: Attempt, stage: Stage, meter: Meter) -> Iterator[None]:
    """Store what a stage makes of each cluster, and say why some are out.

    Where all are refused, no row of a later stage is left; where none gets through, none that does not belong.
    """
    before = attempt.out
    try:
        yield
    except Unreadable as error:
        attempt.fail(error.errors, stage.name)
    except Exception as error:
        # What ended the stage may end this too: then the verdict stays `started`.
        with suppress(Exception):
            attempt.fail(dict.fromkeys(attempt.going_on, error), stage.name)
        _say_unchanged(attempt, meter)
        raise
    else:
        if not attempt.going_on:
            attempt.drop_after(stage.name)
    for cluster in sorted(attempt.out - before):
        whose = f"cluster {cluster}: " if len(attempt.verdicts) > 1 else ""
        meter.stream.write(f"error: {whose}{attempt.verdicts[cluster].reason}\n")
    if not attempt.going_on:
        _say_unchanged(attempt, meter)


def _say_who_is_out(attempt: Attempt, meter: Meter) -> None:
    """Where an earlier stage of the attempt has stopped all clusters, so that nothing is left to be done."""
    if not attempt.going_on:
        for cluster, verdict in sorted(attempt.verdicts.items()):
            meter.stream.write(
                f"error: cluster {cluster} {verdict.told()}: run the stage {verdict.stage!r} again first\n"
            )


def _say_unchanged(attempt: Attempt, meter: Meter) -> None:
    if not attempt.has_started:
        meter.forget()
        meter.stream.write("nothing was changed: the plan that the run has, its verdict and its files stay\n")


def _published(run: Run, cluster_id: str) -> Verdict:
    told = PLANNED if emit.has_reassignment(run, cluster_id) else NOTHING_TO_DO
    sha256, missed = emit.handed_over(run, cluster_id)
    return Verdict(verdict=told, exit_code=0, reason=missed, manifest_sha256=sha256)
