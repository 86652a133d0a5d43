"""Runs Kafka's command-line tools with the cluster's connection; a failure is reported in one line."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from execution.observed import TopicPartition
from execution.planned import Refused
from optimizer.errors import BallastError
from optimizer.kafka.reassignment_json import format_reassignment
from optimizer.kafka.versions import has_old_options

CONFIGS, REASSIGN, ELECTION = "kafka-configs", "kafka-reassign-partitions", "kafka-leader-election"
# Exit codes of the plan's own unthrottle scripts, in addition to 0 and 1.
STILL_MOVING = 4  # copies run
ONLY_OWED = 5  # only rates of brokers that do not answer remain


@dataclass(frozen=True)
class ToolResult:
    """Output and exit code of a program."""

    exit_code: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """Why the program failed: up to three lines, errors first, without blank lines and stack frames."""
        lines = [line.strip() for line in f"{self.err}\n{self.out}".splitlines()]
        messages = [line for line in lines if line and not line.startswith("at ")]
        return "; ".join(messages[:3]) or f"exit code {self.exit_code}"


@dataclass(frozen=True)
class KafkaTools:
    """Kafka's tools for one cluster.

    Parameters
    ----------
    bootstrap_servers : str
    client_config : str
        File of client properties; empty for none.
    folder : str
        Folder of the tools; empty: they are on PATH.
    """

    bootstrap_servers: str
    client_config: str = ""
    folder: str = ""

    def path(self, name: str) -> str:
        """Path of a tool, whose file may be called with or without ``.sh``.

        Raises
        ------
        Refused
            When the tool is missing.
        """
        folder = self.folder or None
        path = shutil.which(f"{name}.sh", path=folder) or shutil.which(name, path=folder)
        if not path:
            raise Refused(
                f"{name}.sh is not {'in ' + self.folder if folder else 'on PATH'}: "
                f"give the folder of Kafka's tools with --kafka-bin"
            )
        return path

    def check(self) -> str:
        """Check that the tools exist and that one of them starts; returns the version that it prints.

        Raises
        ------
        Refused
            When a tool is missing or does not start.
        """
        for name in (CONFIGS, REASSIGN):
            self.path(name)
        result = _run([self.path(REASSIGN), "--version"])
        if result.exit_code:
            raise Refused(f"{self.path(REASSIGN)} does not start (is Java installed?): {result.reason}")
        return result.out.strip()

    def reassign(self, lists: Mapping[TopicPartition, Iterable[int]], *options: str) -> str:
        """Run kafka-reassign-partitions.sh with these replica lists; returns its output.

        Raises
        ------
        BallastError
            When it fails.
        """
        text = format_reassignment((*partition, list(replicas), None) for partition, replicas in sorted(lists.items()))
        return self.reassign_document(text, *options)

    def reassign_document(self, text: str, *options: str) -> str:
        """Run kafka-reassign-partitions.sh with a reassignment document; returns its output."""
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder) / "reassignment.json"
            document.write_text(text, encoding="utf-8")
            connection = ["--bootstrap-server", self.bootstrap_servers]
            connection += ["--command-config", self.client_config] if self.client_config else []
            result = _run([self.path(REASSIGN), *connection, "--reassignment-json-file", str(document), *options])
        if result.exit_code:
            raise BallastError(f"kafka-reassign-partitions.sh {' '.join(options)} failed: {result.reason}")
        return result.out

    def elect(self, text: str) -> None:
        """Elect the preferred leaders of the partitions of a document.

        Raises
        ------
        BallastError
            When the election of any partition fails.
        """
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder) / "leader-election.json"
            document.write_text(text, encoding="utf-8")
            election = ["--election-type", "preferred", "--path-to-json-file", str(document)]
            connection = ["--bootstrap-server", self.bootstrap_servers]
            connection += [self._election_option(), self.client_config] if self.client_config else []
            result = _run([self.path(ELECTION), *connection, *election])
        if result.exit_code:
            raise BallastError(f"kafka-leader-election.sh failed: {result.reason}")

    def _election_option(self) -> str:
        """The option for client properties: ``--command-config`` since Kafka 4.2 (KIP-1147), as for all other tools."""
        version = _run([self.path(ELECTION), "--version"]).out.partition(" ")[0].strip()
        return "--admin.config" if has_old_options(version) else "--command-config"

    def script(self, documents: Mapping[str, str], name: str) -> ToolResult:
        """Run one of the plan's scripts in a folder with the documents of its wave."""
        connection = {
            "BOOTSTRAP": self.bootstrap_servers,
            "KAFKA_CONFIGS": self.path(CONFIGS),
            "KAFKA_REASSIGN": self.path(REASSIGN),
            "COMMAND_CONFIG": self.client_config,
        }
        environ = {key: value for key, value in os.environ.items() if key != "FORCE"}
        with tempfile.TemporaryDirectory() as folder:
            for document, text in documents.items():
                (Path(folder) / document).write_text(text, encoding="utf-8", newline="\n")
            return _run(["sh", str(Path(folder) / name)], {**environ, **connection})


def _run(command: list[str], environ: Mapping[str, str] | None = None) -> ToolResult:
    # The program inherits open files: it keeps the lock of this step if the step is killed.
    result = subprocess.run(
        command, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, close_fds=False
    )
    return ToolResult(result.returncode, result.stdout, result.stderr)
