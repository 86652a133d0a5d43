"""Runs kafka-reassign-partitions.sh with the cluster's connection; a failure is reported in one line."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from execution.observed import TopicPartition
from optimizer.errors import BallastError
from optimizer.kafka.reassignment_json import format_reassignment
from stored.verdicts import Refused

REASSIGN = "kafka-reassign-partitions"


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
    """Kafka's tool that starts reassignments, for one cluster.

    Parameters
    ----------
    bootstrap_servers : str
    client_config : str
        File of client properties; empty for none.
    folder : str
        Folder of Kafka's tools; empty: they may be on PATH.
    """

    bootstrap_servers: str
    client_config: str = ""
    folder: str = ""

    @property
    def path(self) -> str:
        """Path of kafka-reassign-partitions.sh; the file may also be called without ``.sh``.

        Raises
        ------
        Refused
            When the tool is missing.
        """
        path = self._found()
        if not path:
            raise Refused(
                f"{REASSIGN}.sh is not {'in ' + self.folder if self.folder else 'on PATH'}: "
                f"give the folder of Kafka's tools with --kafka-bin"
            )
        return path

    @property
    def is_there(self) -> bool:
        """Whether the tool has to start copies: it is on PATH, or its folder was given."""
        return bool(self.folder or self._found())

    def _found(self) -> str | None:
        folder = self.folder or None
        return shutil.which(f"{REASSIGN}.sh", path=folder) or shutil.which(REASSIGN, path=folder)

    def check(self) -> str:
        """Check that the tool starts; returns the version that it prints, empty if there is no tool on PATH.

        Raises
        ------
        Refused
            When the tool does not start, or is missing in the given folder.
        """
        if not self.is_there:
            return ""
        result = _run([self.path, "--version"])
        if result.exit_code:
            raise Refused(f"{self.path} does not start (is Java installed?): {result.reason}")
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
            result = _run([self.path, *connection, "--reassignment-json-file", str(document), *options])
        if result.exit_code:
            raise BallastError(f"kafka-reassign-partitions.sh {' '.join(options)} failed: {result.reason}")
        return result.out


def _run(command: list[str]) -> ToolResult:
    # The program inherits open files: it keeps the lock of this step if the step is killed.
    result = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, close_fds=False
    )
    return ToolResult(result.returncode, result.stdout, result.stderr)
