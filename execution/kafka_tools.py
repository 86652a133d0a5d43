"""Kafka's own command-line tools: found by name, run with the connection, told in one line where they fail."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from execution.observed import Place
from execution.planned import Refused
from optimizer.errors import BallastError
from optimizer.kafka.reassignment_json import format_reassignment
from optimizer.kafka.versions import has_old_options

CONFIGS, REASSIGN, ELECTION = "kafka-configs", "kafka-reassign-partitions", "kafka-leader-election"
# How the plan's own unthrottle scripts end, besides 0 and 1.
STILL_MOVING = 4  # copies run
ONLY_OWED = 5  # all that is left are rates of brokers that do not answer


@dataclass(frozen=True)
class Done:
    """What a program printed, and its exit code."""

    exit_code: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """Why it failed: the first lines that say something."""
        lines = [line.strip() for line in f"{self.err}\n{self.out}".splitlines()]
        said = [line for line in lines if line and not line.startswith("at ")]
        return "; ".join(said[:3]) or f"exit code {self.exit_code}"


@dataclass(frozen=True)
class KafkaTools:
    """The tools, for one cluster.

    Parameters
    ----------
    bootstrap_servers : str
    client_config : str
        File of client properties; empty for none.
    folder : str
        Where the tools are; empty: on PATH.
    """

    bootstrap_servers: str
    client_config: str = ""
    folder: str = ""

    def path(self, name: str) -> str:
        """Where a tool is, with or without ``.sh``.

        Raises
        ------
        Refused
            When it is not there.
        """
        where = self.folder or None
        found = shutil.which(f"{name}.sh", path=where) or shutil.which(name, path=where)
        if not found:
            raise Refused(
                f"{name}.sh is not {'in ' + self.folder if where else 'on PATH'}: name its folder by --kafka-bin"
            )
        return found

    def check(self) -> str:
        """Start one of them; returns the version that it tells.

        Raises
        ------
        Refused
            When a tool is missing or does not start.
        """
        for name in (CONFIGS, REASSIGN):
            self.path(name)
        done = _run([self.path(REASSIGN), "--version"])
        if done.exit_code:
            raise Refused(f"{self.path(REASSIGN)} does not start (is Java there?): {done.reason}")
        return done.out.strip()

    def reassign(self, lists: Mapping[Place, Iterable[int]], *options: str) -> str:
        """Run kafka-reassign-partitions.sh on some lists; returns what it prints.

        Raises
        ------
        BallastError
            When it fails.
        """
        text = format_reassignment((*place, list(replicas), None) for place, replicas in sorted(lists.items()))
        return self.reassign_document(text, *options)

    def reassign_document(self, text: str, *options: str) -> str:
        """The same of a document."""
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder) / "reassignment.json"
            document.write_text(text, encoding="utf-8")
            connection = ["--bootstrap-server", self.bootstrap_servers]
            connection += ["--command-config", self.client_config] if self.client_config else []
            done = _run([self.path(REASSIGN), *connection, "--reassignment-json-file", str(document), *options])
        if done.exit_code:
            raise BallastError(f"kafka-reassign-partitions.sh {' '.join(options)} failed: {done.reason}")
        return done.out

    def elect(self, text: str) -> None:
        """Elect the preferred leaders of the partitions of a document.

        Raises
        ------
        BallastError
            When it fails for some of them.
        """
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder) / "leader-election.json"
            document.write_text(text, encoding="utf-8")
            wanted = ["--election-type", "preferred", "--path-to-json-file", str(document)]
            connection = ["--bootstrap-server", self.bootstrap_servers]
            connection += [self._election_option(), self.client_config] if self.client_config else []
            done = _run([self.path(ELECTION), *connection, *wanted])
        if done.exit_code:
            raise BallastError(f"kafka-leader-election.sh failed: {done.reason}")

    def _election_option(self) -> str:
        """Kafka 4.2 (KIP-1147) gave this tool the option's name that all others have."""
        version = _run([self.path(ELECTION), "--version"]).out.partition(" ")[0].strip()
        return "--admin.config" if has_old_options(version) else "--command-config"

    def script(self, documents: Mapping[str, str], name: str) -> Done:
        """Run one of the plan's scripts among the documents of its wave."""
        mine = {
            "BOOTSTRAP": self.bootstrap_servers,
            "KAFKA_CONFIGS": self.path(CONFIGS),
            "KAFKA_REASSIGN": self.path(REASSIGN),
            "COMMAND_CONFIG": self.client_config,
        }
        environ = {key: value for key, value in os.environ.items() if key != "FORCE"}
        with tempfile.TemporaryDirectory() as folder:
            for document, text in documents.items():
                (Path(folder) / document).write_text(text, encoding="utf-8", newline="\n")
            return _run(["sh", str(Path(folder) / name)], {**environ, **mine})


def _run(command: list[str], environ: Mapping[str, str] | None = None) -> Done:
    # What is still open below (a lock) stays so in the program: it outlives this process where that is killed.
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, close_fds=False
    )
    return Done(done.returncode, done.stdout, done.stderr)
