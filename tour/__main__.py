"""``python -m tour``: a plan from its request to its rollback, on a Kafka of its own."""

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from execution.options import parser_of
from setup.children import adopt_orphans, end_children
from setup.jars import KAFKA, fetch
from setup.paths import HOME, SetupError
from sources import kafka_admin
from tour.cluster import Cluster, ClusterError, running, write_tools
from tour.options import add_commands
from tour.producer import producing
from tour.topics import DRAIN, EMPTY, RACKS, TOPICS, fill_all

WRITTEN = "orders.placed-v1"
_COPYING_SECONDS, _DEAD_SECONDS = 5, 15  # until the kill, and from it until the broker starts again
CONFIG = """\
[[clusters]]
id = "tour"
bootstrap_servers = "{servers}"
kafka_version = "4.3"
drain_brokers = [{drain}]
[policy]
disk_band = 0.2
replicas_band = 0.2
[schedule]
throttle_mb_per_s = 3
[storage]
warehouse = "{home}/warehouse"
output = "{home}/out"
"""


@dataclass(frozen=True)
class Step:
    """One step: what it shows, and the command as a person types it in the checkout.

    Parameters
    ----------
    meanwhile : callable, optional
        What happens to the cluster while the command runs, until the event that the tour is interrupted.
    """

    text: str
    command: str
    meanwhile: Callable[[threading.Event], None] | None = None


def steps(home: Path, kafka: Cluster) -> Iterator[Step]:
    """The steps of the tour, in order."""
    plan = f"--config {home}/tour.toml --run-id tour --cluster tour"
    execute = f"{plan} --kafka-bin {home}/tools"
    kept = ",".join(str(broker) for broker in RACKS if broker != DRAIN)
    yield Step(
        f"Plan: empty broker {DRAIN}, give {EMPTY} its share.",
        f"./spark-submit.sh pipeline --config {home}/tour.toml --run-id tour",
    )
    yield Step(f"Read what you would approve. The page is {home}/out/tour/tour/report.html", f"./ballast show {plan}")
    generate = f"{home}/tools/kafka-reassign-partitions.sh --bootstrap-server {kafka.bootstrap} --generate"
    yield Step(
        "What would Kafka's own tool do?",
        f"{generate} --topics-to-move-json-file {home}/topics.json --broker-list {kept} > {home}/kafka.txt",
    )
    yield Step("Judge its plan.", f"./ballast judge {plan} --plan {home}/kafka.txt")
    yield Step("Approve Ballast's plan.", f"./ballast approve {plan}")
    yield Step(
        f"Execute it. In the middle broker {EMPTY} is killed, and started again after a while.",
        f"./ballast run {execute}",
        meanwhile=lambda interrupted: _kill_for_a_while(kafka, interrupted),
    )
    yield Step("Take it back.", f"./ballast rollback {execute} --all")


def _kill_for_a_while(kafka: Cluster, interrupted: threading.Event) -> None:
    """Kill a broker that receives copies, and start it again when ``run`` has noticed."""
    with kafka_admin.connected({"bootstrap_servers": kafka.bootstrap}) as admin:
        while not (interrupted.wait(0.2) or admin.list_partition_reassignments()):
            pass
    if interrupted.wait(_COPYING_SECONDS):
        return
    _print(f"   -- broker {EMPTY} is killed")
    kafka.stop_broker(EMPTY, signal.SIGKILL)
    if interrupted.wait(_DEAD_SECONDS):
        return
    _print(f"   -- broker {EMPTY} starts again")
    kafka.start_broker(EMPTY)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _print_error(error: object) -> None:
    sys.stderr.write(f"error: {error}\n")


def perform(step: Step, number: int, *, waits: bool) -> None:
    """Show a step, wait for a key, and run its command.

    Raises
    ------
    ClusterError
        When the command fails.
    """
    _print(f"\n== {number}. {step.text}\n$ {step.command}")
    if waits:
        input("[Enter] ")
    process, interrupted = subprocess.Popen(["bash", "-c", step.command], cwd=HOME), threading.Event()
    if step.meanwhile:
        threading.Thread(target=step.meanwhile, args=[interrupted], daemon=True).start()
    try:
        code = process.wait()
    except BaseException:
        interrupted.set()
        raise
    if code:
        raise ClusterError(f"the command ended with {code}")


def tour(home: Path, *, waits: bool) -> None:
    """Start the cluster, perform the steps, and stop it."""
    _print(f"Six brokers start on this machine, on three racks; all files are in {home}")
    with running(home / "kafka", RACKS) as kafka:
        write_tools(home / "tools", KAFKA)
        fill_all(kafka, times=3)
        (home / "tour.toml").write_text(CONFIG.format(home=home, servers=kafka.bootstrap, drain=DRAIN))
        listed = ",".join(f'{{"topic":"{name}"}}' for name in TOPICS)
        (home / "topics.json").write_text(f'{{"version":1,"topics":[{listed}]}}')
        _print(f"{len(TOPICS)} topics have data. A producer writes to {WRITTEN}, with acks=all.")
        with producing(kafka.bootstrap, WRITTEN) as sent:
            for number, step in enumerate(steps(home, kafka), start=1):
                perform(step, number, waits=waits)
        lost = len(sent.lost())
        _print(f"\nThe producer wrote {len(sent.numbers)} records meanwhile: {sent.failed} failed, {lost} are lost.")


def main(words: list[str]) -> int:
    """Perform the tour; returns the exit code."""
    options = parser_of([add_commands]).parse_args(words)
    if not options.yes and not sys.stdin.isatty():
        _print_error("the tour waits for a key between its steps, and there is no terminal: give --yes")
        return 2
    adopt_orphans()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    home = Path(tempfile.mkdtemp(prefix="ballast-tour-"))
    try:
        fetch(KAFKA)
        tour(home, waits=not options.yes)
    except (SetupError, ClusterError) as error:
        _print_error(error)
        return 1
    except (KeyboardInterrupt, EOFError):
        _print("\nThe tour stops; that takes some seconds.")
        return 128 + signal.SIGINT
    finally:
        end_children()
        shutil.rmtree(home, ignore_errors=True)
        _print("Everything is stopped and removed.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
