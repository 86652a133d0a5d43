"""What every job runs: options to settings, settings to stages, errors to exit codes."""

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
from optimizer.given_knobs import given_knobs
from optimizer.job_options import LOCAL_INPUT, parser
from optimizer.kafka.versions import unknown_release
from optimizer.locks import only_one
from optimizer.setting_checks import NAME_RULE, Problems, is_folder_name
from optimizer.settings import Settings, Storage
from optimizer.shipped import code_version, defaults
from optimizer.similar import did_you_mean
from optimizer.units import plural


def _overrides(options: argparse.Namespace, file: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """What the options say, laid over the file; those that can't be used are added to ``problems``."""
    content: dict[str, Any] = {}
    for given in given_knobs(options, problems):
        content = merge(content, {given.section: {given.knob: given.value}})
    cluster = problems.of(partial(_one_cluster, options, file))
    return content | ({"clusters": [cluster]} if cluster else {})


def replaced_lists(options: argparse.Namespace) -> list[str]:
    """Lists of the configuration file that options replace by others, a line each."""
    file = read_toml(Path(options.config)) if options.config else {}
    lines = []
    for given in given_knobs(options, Problems()):
        listed = file.get(given.section, {}).get(given.knob)
        if isinstance(listed, list) and listed and listed != given.value:
            lines.append(f"{given.words} replaces [{given.section}] {given.knob} = {listed} of {options.config}")
    return [*lines, *_replaced_clusters(options, file)]


def _replaced_clusters(options: argparse.Namespace, file: Mapping[str, Any]) -> Iterator[str]:
    """A line where options describe a cluster and the file has others: their settings do not count."""
    clusters = file.get("clusters", [])
    if clusters and is_tables(clusters) and (options.input or options.bootstrap_server):
        named = (f"{one.get('id')} ({', '.join(key for key in one if key != 'id')})" for one in clusters)
        place = "--input" if options.input else "--bootstrap-server"
        yield f"--cluster {options.cluster} {place} replaces [[clusters]] of {options.config}: {', '.join(named)}"


def unknown_releases(settings: Settings) -> list[str]:
    """Releases of Kafka that the settings name and that are not known, a line each."""
    told = ((one.id, one.kafka_version, unknown_release(one.kafka_version)) for one in settings.clusters)
    remedy = "of a distribution, give the release of Kafka that is in it"
    return [f"warning: cluster {name}: Kafka {version} {text}; {remedy}" for name, version, text in told if text]


def _one_cluster(options: argparse.Namespace, file: Mapping[str, Any]) -> dict[str, Any] | None:
    """The cluster that the options describe, if they do."""
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
    """The one cluster of the file that is named without a place to read it."""
    remedy = "give --input DIR or --bootstrap-server HOST:PORT beside it"
    if not options.config:
        raise ConfigError(f"--cluster {options.cluster} does not say where to read it: {remedy}")
    clusters = file.get("clusters", [])
    known = {str(one.get("id")): one for one in clusters} if is_tables(clusters) else {}
    if options.cluster not in known:
        listed = f"{', '.join(sorted(known)) or 'none'}{did_you_mean(options.cluster, known)}"
        raise ConfigError(f"--cluster {options.cluster} is not in {options.config}, which names {listed}: {remedy}")
    return known[options.cluster]


def _built(content: dict[str, Any], over: dict[str, Any], file: str | None) -> Settings:
    """Checked settings; what the file alone is refused for is refused with its name."""
    try:
        return build(merge(content, over))
    except ConfigError as error:
        of_file = Problems()
        of_file.of(partial(build, content))
        told = (f"{file}: {one}" if file and one in of_file.told else one for one in error.problems)
        raise ConfigError(*told) from error


def settings_of(options: argparse.Namespace) -> Settings:
    """Defaults, file and options, merged and checked.

    Raises
    ------
    ConfigError
        With all that is wrong.
    """
    problems = Problems()
    file = read_toml(Path(options.config)) if options.config else {}
    content = merge(defaults(), file)
    over = _overrides(options, file, problems)
    settings = problems.of(partial(_built, content, over, options.config))
    if settings and not settings.clusters and not problems.told:
        problems.told.append(
            "no cluster is named: give --config FILE with [[clusters]], or --cluster ID with --input DIR"
        )
    problems.raise_any()
    assert settings
    return settings


def run_id_of(options: argparse.Namespace, names: Sequence[str]) -> str:
    """The run's id: given, or the time; stages that go on with what others wrote need it given.

    Raises
    ------
    ConfigError
    """
    first = NAMES[0]
    if not options.run_id and first not in names:
        raise ConfigError(f"{names[0]} continues a run: give --run-id ID, the one that {first} printed or was given")
    run_id = options.run_id or datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    if not is_folder_name(run_id):
        raise ConfigError(f"--run-id {run_id!r}: {NAME_RULE}")
    return run_id


def _storage(options: argparse.Namespace) -> Storage:
    """The folders as the options alone say, where settings can't be used."""
    named = {"warehouse": options.warehouse, "output": options.output}
    return Storage(**{name: folder for name, folder in named.items() if folder})


def checked(names: Sequence[str], options: argparse.Namespace) -> tuple[Settings, str]:
    """Settings and run id; all that is wrong with them, or with the folders that will be written, is told at once.

    Raises
    ------
    ConfigError
    """
    problems = Problems()
    run_id = problems.of(partial(run_id_of, options, names))
    settings = problems.of(partial(settings_of, options))
    problems.told += places.problems(settings.storage if settings else _storage(options), run_id or "")
    problems.raise_any()
    assert settings
    assert run_id
    return settings, run_id


@contextmanager
def _full_disk_said(settings: Settings) -> Iterator[None]:
    """A full disk behind whatever Spark raises is one line."""
    try:
        yield
    except Exception as error:
        if not places.no_space(error):
            raise
        ours = (places.local(settings.storage.warehouse), Path(settings.storage.output), Path(gettempdir()))
        raise DiskFull(str(places.fullest(folder for folder in ours if folder))) from error


def _execute(names: Sequence[str], options: argparse.Namespace) -> int:
    settings, run_id = checked(names, options)
    sys.stderr.write("".join(f"{line}\n" for line in (*replaced_lists(options), *unknown_releases(settings))))
    if NAMES[0] in names and os.environ.get(LOCAL_INPUT):
        inputs.check(settings.clusters)
    with only_one(run_id, places.locks_of_run(settings.storage, run_id)), _full_disk_said(settings):
        return _plan(names, settings, run_id)


def _plan(names: Sequence[str], settings: Settings, run_id: str) -> int:
    """Everything that needs Spark is imported here, so that --help is quick."""
    from pyspark.sql import SparkSession

    from optimizer.meter import Meter
    from optimizer.session import session
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
            sys.stdout.write(written_paths(run, [name for name, one in verdicts.items() if not one.is_stopped]))
            sys.stdout.flush()
        if len(verdicts) > 1:
            sys.stderr.write("".join(f"{name}: {one.summary()}\n" for name, one in verdicts.items() if one.is_stopped))
        return exit_code(verdicts)
    finally:
        spark.stop()


def _stderr_of_its_own() -> None:
    """Write errors and progress to the stderr of spark-submit: it puts those of a Python driver into its stdout.

    Where the system has no ``/proc``, or stderr is a socket, they stay there.
    """
    parent = Path(f"/proc/{os.getppid()}")
    try:
        if b"SparkSubmit" not in (parent / "cmdline").read_bytes():
            return
        theirs = os.open(parent / "fd" / "2", os.O_WRONLY | os.O_APPEND)
    except OSError:
        return
    os.dup2(theirs, sys.stderr.fileno())
    os.close(theirs)


def main(names: Sequence[str], description: str) -> int:
    """Run stages by name; returns the exit code."""
    _stderr_of_its_own()
    options = parser(description).parse_args()
    try:
        return _execute(names, options)
    except BallastError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
