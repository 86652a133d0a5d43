"""The main program of every job: options to settings, settings to stages, errors to exit codes."""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from optimizer import inputs, places
from optimizer.configuration import absolute, build, is_tables, merge, read_toml
from optimizer.declared import NAMES
from optimizer.errors import BallastError, ConfigError, DiskFull
from optimizer.folders import is_site_name
from optimizer.given_knobs import given_knobs
from optimizer.job_options import LOCAL_INPUT, parser
from optimizer.kafka.versions import unknown_release
from optimizer.locks import lock_run
from optimizer.setting_checks import NAME_RULE, Problems, is_folder_name
from optimizer.settings import Settings, Storage
from optimizer.shipped import code_version, defaults
from optimizer.similar import did_you_mean
from optimizer.units import plural


def _overrides(options: argparse.Namespace, file: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """The settings of the options, which override the file. Invalid ones are added to ``problems``."""
    content: dict[str, Any] = {}
    for knob in given_knobs(options, problems):
        content = merge(content, {knob.section: {knob.knob: knob.value}})
    cluster = problems.collect(partial(_cluster_of, options, file))
    return content | ({"clusters": [cluster]} if cluster else {})


def replaced_lists(options: argparse.Namespace) -> list[str]:
    """A line for each list of the configuration file that an option replaces by another."""
    file = read_toml(Path(options.config)) if options.config else {}
    lines = []
    for knob in given_knobs(options, Problems()):
        listed = file.get(knob.section, {}).get(knob.knob)
        if isinstance(listed, list) and listed and listed != knob.value:
            lines.append(f"{knob.option_text} replaces [{knob.section}] {knob.knob} = {listed} of {options.config}")
    return [*lines, *_replaced_clusters(options, file)]


def _replaced_clusters(options: argparse.Namespace, file: Mapping[str, Any]) -> Iterator[str]:
    """A line if options replace the clusters of the file."""
    clusters = file.get("clusters", [])
    if clusters and is_tables(clusters) and (options.input or options.bootstrap_server):
        names = (f"{table.get('id')} ({', '.join(key for key in table if key != 'id')})" for table in clusters)
        source = "--input" if options.input else "--bootstrap-server"
        yield f"--cluster {options.cluster} {source} replaces [[clusters]] of {options.config}: {', '.join(names)}"


def unknown_releases(settings: Settings) -> list[str]:
    """A warning for each unknown Kafka release in the settings."""
    warnings = ((cluster, unknown_release(cluster.kafka_version)) for cluster in settings.clusters)
    remedy = "for a distribution, give the Kafka release that it contains"
    return [
        f"warning: cluster {cluster.id}: Kafka {cluster.kafka_version} {text}; {remedy}"
        for cluster, text in warnings
        if text
    ]


def _cluster_of(options: argparse.Namespace, file: Mapping[str, Any]) -> dict[str, Any] | None:
    """The cluster that the options describe; None if they describe none."""
    if options.cluster:
        paths = {"input": options.input, "client_config": options.client_config}
        cluster = {name: absolute(value, Path.cwd()) for name, value in paths.items() if value}
        if options.bootstrap_server:
            cluster["bootstrap_servers"] = options.bootstrap_server
        if options.kafka_version:
            cluster["kafka_version"] = options.kafka_version
        if not (options.input or options.bootstrap_server):
            return _known_cluster(options, file)
        return {"id": options.cluster, **cluster}
    if options.input or options.bootstrap_server or options.client_config or options.kafka_version:
        raise ConfigError(
            "--input, --bootstrap-server, --client-config and --kafka-version describe one cluster: name it with "
            "--cluster ID"
        )
    return None


def _known_cluster(options: argparse.Namespace, file: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster of the file that the options name without a source."""
    remedy = "also give --input DIR or --bootstrap-server HOST:PORT"
    if not options.config:
        raise ConfigError(f"--cluster {options.cluster} does not say where to read it: {remedy}")
    clusters = file.get("clusters", [])
    known = {str(table.get("id")): table for table in clusters} if is_tables(clusters) else {}
    if options.cluster not in known:
        listed = f"{', '.join(sorted(known)) or 'none'}{did_you_mean(options.cluster, known)}"
        raise ConfigError(f"--cluster {options.cluster} is not in {options.config}, which names {listed}: {remedy}")
    return known[options.cluster]


def _built(content: dict[str, Any], over: dict[str, Any], file: str | None) -> Settings:
    """Checked settings. Problems that the file alone has are reported with the file's name."""
    try:
        return build(merge(content, over))
    except ConfigError as error:
        file_problems = Problems()
        file_problems.collect(partial(build, content))
        in_file = file_problems.messages if file else []
        raise ConfigError(*(f"{file}: {text}" if text in in_file else text for text in error.problems)) from error


def settings_of(options: argparse.Namespace) -> Settings:
    """Defaults, file and options, merged and checked.

    Raises
    ------
    ConfigError
        With all problems.
    """
    problems = Problems()
    file = read_toml(Path(options.config)) if options.config else {}
    content = merge(defaults(), file)
    over = _overrides(options, file, problems)
    settings = problems.collect(partial(_built, content, over, options.config))
    if settings and not settings.clusters and not problems.messages:
        problems.messages.append(
            "no cluster is named: give --config FILE with [[clusters]], or --cluster ID with --input DIR"
        )
    problems.raise_any()
    assert settings
    return settings


def run_id_of(options: argparse.Namespace, names: Sequence[str]) -> str:
    """The run id: the option, or the current time. Jobs that continue a run need the option.

    Raises
    ------
    ConfigError
    """
    first = NAMES[0]
    if not options.run_id and first not in names:
        raise ConfigError(f"{names[0]} continues a run: give the --run-id ID that {first} printed or got")
    run_id = options.run_id or datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    if not is_folder_name(run_id):
        raise ConfigError(f"--run-id {run_id!r}: {NAME_RULE}")
    if is_site_name(run_id):
        raise ConfigError(f"--run-id {run_id!r}: a site of all runs has a page or folder of that name; choose another")
    return run_id


def _storage(options: argparse.Namespace) -> Storage:
    """The folders of the options; used if the settings are invalid."""
    folders = {"warehouse": options.warehouse, "output": options.output}
    return Storage(**{name: folder for name, folder in folders.items() if folder})


def checked(names: Sequence[str], options: argparse.Namespace) -> tuple[Settings, str]:
    """Settings and run id. All problems with them and with the output folders are reported at once.

    Raises
    ------
    ConfigError
    """
    problems = Problems()
    run_id = problems.collect(partial(run_id_of, options, names))
    settings = problems.collect(partial(settings_of, options))
    problems.messages += places.problems(settings.storage if settings else _storage(options), run_id or "")
    problems.raise_any()
    assert settings
    assert run_id
    return settings, run_id


@contextmanager
def _report_full_disk(settings: Settings) -> Iterator[None]:
    """Report a full disk in one line, whatever error Spark raises for it."""
    try:
        yield
    except Exception as error:
        if not places.no_space(error):
            raise
        folders = (places.local(settings.storage.warehouse), Path(settings.storage.output), Path(gettempdir()))
        raise DiskFull(str(places.fullest(folder for folder in folders if folder))) from error


def _execute(names: Sequence[str], options: argparse.Namespace) -> int:
    settings, run_id = checked(names, options)
    sys.stderr.write("".join(f"{line}\n" for line in (*replaced_lists(options), *unknown_releases(settings))))
    if NAMES[0] in names and os.environ.get(LOCAL_INPUT):
        inputs.check(settings.clusters)
    with lock_run(run_id, places.locks_of_run(settings.storage, run_id)), _report_full_disk(settings):
        _check_not_approved(settings.storage, run_id)
        return _plan(names, settings, run_id)


def _check_not_approved(storage: Storage, run_id: str) -> None:
    """Check the approvals of a local warehouse before Spark starts. The stages check those of every warehouse."""
    warehouse = places.local(storage.warehouse)
    if warehouse and (warehouse / "approvals").is_dir():
        from stored import approvals
        from stored.tables import Warehouse

        approvals.check_none(Warehouse(storage.warehouse).rows("approvals", run_id=run_id), run_id)


def _plan(names: Sequence[str], settings: Settings, run_id: str) -> int:
    """Run the stages. Spark is imported only here, so that --help is quick."""
    from pyspark.sql import SparkSession

    from optimizer.meter import Meter
    from optimizer.session import remove_checkpoints, session
    from optimizer.stages.emit.emit import written_paths
    from optimizer.stages.runner import run_stages, stages_named
    from optimizer.stages.stage import Run
    from optimizer.stages.verdicts import exit_code

    spark = session(SparkSession.builder)
    meter = Meter(spark, sys.stderr)
    try:
        run = Run(spark, run_id, settings, code_version())
        sys.stderr.write(f"run {run_id}: {plural(len(settings.clusters), 'cluster')}\n")
        try:
            verdicts = run_stages(stages_named(names), run, meter)
        finally:
            meter.write(run.folder / "timings.json")
        if "emit" in names:
            sys.stdout.write(written_paths(run, [name for name, verdict in verdicts.items() if not verdict.is_stopped]))
            sys.stdout.flush()
        if len(verdicts) > 1:
            stopped = {name: verdict for name, verdict in verdicts.items() if verdict.is_stopped}
            sys.stderr.write("".join(f"{name}: {verdict.summary()}\n" for name, verdict in stopped.items()))
        return exit_code(verdicts)
    finally:
        remove_checkpoints(spark)
        spark.stop()


def _use_stderr_of_spark_submit() -> None:
    """Write errors and progress to the stderr of spark-submit, which prints a Python driver's stderr to its stdout.

    Without ``/proc``, or if stderr is a socket, nothing changes.
    """
    parent = Path(f"/proc/{os.getppid()}")
    try:
        if b"SparkSubmit" not in (parent / "cmdline").read_bytes():
            return
        stderr = os.open(parent / "fd" / "2", os.O_WRONLY | os.O_APPEND)
    except OSError:
        return
    os.dup2(stderr, sys.stderr.fileno())
    os.close(stderr)


def main(names: Sequence[str], description: str) -> int:
    """Run stages by name; returns the exit code."""
    _use_stderr_of_spark_submit()
    options = parser(description).parse_args()
    try:
        return _execute(names, options)
    except BallastError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
