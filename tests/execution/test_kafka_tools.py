"""Kafka's tools as programs: their paths, their arguments, and the messages if they fail."""

import os
import shlex
from pathlib import Path

import pytest

from execution.kafka_tools import CONFIGS, ELECTION, REASSIGN, KafkaTools, ToolResult
from execution.planned import Refused
from optimizer.errors import BallastError

DOCUMENT = '{"partitions":[]}'
LISTS = {("b", 0): (3, 1), ("a", 10): (2,), ("a", 9): (1, 2)}


class Bin:
    """A folder of fake programs, and their arguments."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._words, self._documents = folder, folder / "words", folder / "documents"

    def add(self, name: str, *, out: str = "", err: str = "", code: int = 0) -> Path:
        """Add a program that records its arguments and the content of a JSON document among them."""
        script = f"""#!/bin/sh
for word in "$@"; do
  printf '%s\\n' "$word" >> {self._words}
  case $word in */*.json) cat "$word" > {self._documents};; esac
done
printf %s {shlex.quote(out)}
printf %s {shlex.quote(err)} >&2
exit {code}
"""
        path = self.folder / name
        path.write_text(script)
        path.chmod(0o755)
        return path

    def arguments(self) -> list[str]:
        """The arguments of all calls, without folders of documents."""
        words = self._words.read_text().splitlines()
        return [Path(word).name if word.endswith(".json") else word for word in words]

    def document(self) -> str:
        """The content of the last document."""
        return self._documents.read_text()

    def tools(self, client_config: str = "") -> KafkaTools:
        """The tools in this folder."""
        return KafkaTools("h:1", client_config, str(self.folder))


@pytest.fixture
def programs(tmp_path: Path) -> Bin:
    """An empty folder."""
    return Bin(tmp_path)


@pytest.mark.parametrize(
    ("err", "out", "reason"),
    [
        ("", "", "exit code 3"),
        ("\n  Error: no\n\tat kafka.X\n", "more\n", "Error: no; more"),
        ("a\nb", "c\nd\n", "a; b; c"),
        ("", "attempts: 3\nat a place", "attempts: 3"),
    ],
)
def test_the_reason_is_the_first_lines_that_say_something(err: str, out: str, reason: str) -> None:
    """Three at most, errors first; no frames of Java's stack, no blank lines."""
    assert ToolResult(3, out, err).reason == reason


def test_a_tool_is_found_with_and_without_its_ending(programs: Bin, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the given folder, or else on PATH; Kafka's archive has the ending, packages do not."""
    monkeypatch.setenv("PATH", str(programs.folder))
    plain = programs.add(CONFIGS)
    for tools in (KafkaTools("h:1"), programs.tools()):
        assert tools.path(CONFIGS) == str(plain)
    whole = programs.add(f"{CONFIGS}.sh")
    assert programs.tools().path(CONFIGS) == str(whole)
    with pytest.raises(
        Refused, match=r"^kafka-configs\.sh is not in /nowhere: give the folder of Kafka's tools with --kafka-bin$"
    ):
        KafkaTools("h:1", folder="/nowhere").path(CONFIGS)
    with pytest.raises(
        Refused, match=r"^kafka-leader-election\.sh is not on PATH: give the folder of Kafka's tools with --kafka-bin$"
    ):
        KafkaTools("h:1").path(ELECTION)


def test_tools_are_there_and_start(programs: Bin) -> None:
    """Both tools of a wave must exist; one is started, because Java may be missing."""
    programs.add(f"{REASSIGN}.sh", out="4.3.1 (Commit:x)\n")
    with pytest.raises(Refused, match=r"kafka-configs\.sh is not in"):
        programs.tools().check()
    programs.add(f"{CONFIGS}.sh", code=1)
    assert programs.tools().check() == "4.3.1 (Commit:x)"
    assert programs.arguments() == ["--version"]
    programs.add(f"{REASSIGN}.sh", err="java: not found", code=127)
    with pytest.raises(Refused, match=r"reassign-partitions\.sh does not start \(is Java installed\?\): java: not"):
        programs.tools().check()
    (programs.folder / f"{REASSIGN}.sh").unlink()
    with pytest.raises(Refused, match=r"kafka-reassign-partitions\.sh is not in"):
        programs.tools().check()


@pytest.mark.parametrize("client_config", ["", "/c.properties"])
def test_lists_are_given_as_a_document(programs: Bin, client_config: str) -> None:
    """In Kafka's order, for any directory; with the connection, and with client properties if there are any."""
    programs.add(f"{REASSIGN}.sh", out="Successfully started")
    output = programs.tools(client_config).reassign(LISTS, "--cancel", "--preserve-throttles")
    assert output == "Successfully started"
    config = ["--command-config", client_config] if client_config else []
    options = ["--reassignment-json-file", "reassignment.json", "--cancel", "--preserve-throttles"]
    assert programs.arguments() == ["--bootstrap-server", "h:1", *config, *options]
    a9 = '{"topic":"a","partition":9,"replicas":[1,2],"log_dirs":["any","any"]}'
    a10 = '{"topic":"a","partition":10,"replicas":[2],"log_dirs":["any"]}'
    b0 = '{"topic":"b","partition":0,"replicas":[3,1],"log_dirs":["any","any"]}'
    assert programs.document() == f'{{"version":1,"partitions":[{a9},{a10},{b0}]}}'


def test_a_failed_tool_is_reported_in_one_line(programs: Bin) -> None:
    """With its options and the reason, not its whole output."""
    programs.add(f"{REASSIGN}.sh", err="Error: no\n\tat kafka.X", code=1)
    with pytest.raises(BallastError, match=r"^kafka-reassign-partitions\.sh --execute failed: Error: no$"):
        programs.tools().reassign_document(DOCUMENT, "--execute")
    assert programs.document() == DOCUMENT
    programs.add(f"{ELECTION}.sh", err="Error: 3 of 4", code=1)
    with pytest.raises(BallastError, match=r"^kafka-leader-election\.sh failed: Error: 3 of 4$"):
        programs.tools().elect(DOCUMENT)


@pytest.mark.parametrize(
    ("version", "client_config", "properties"),
    [
        ("3.9.1", "/c", ["--admin.config", "/c"]),
        ("4.1.1 (Commit:x)", "/c", ["--admin.config", "/c"]),
        ("4.2.0 (Commit:x)", "/c", ["--command-config", "/c"]),
        ("3.9.1", "", []),
    ],
)
def test_elections_know_the_options_of_their_release(
    programs: Bin, version: str, client_config: str, properties: list[str]
) -> None:
    """Before Kafka 4.2 only this tool had another option for client properties."""
    programs.add(f"{ELECTION}.sh", out=version)
    programs.tools(client_config).elect(DOCUMENT)
    election = ["--election-type", "preferred", "--path-to-json-file", "leader-election.json"]
    version_call = ["--version"] if client_config else []
    assert programs.arguments() == [*version_call, "--bootstrap-server", "h:1", *properties, *election]
    assert programs.document() == DOCUMENT


def test_a_script_gets_the_connection_and_its_documents(programs: Bin, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one folder, as in the plan. The caller's environment sets neither the cluster nor FORCE. The script keeps the
    lock, even if the step is killed."""
    for name in (CONFIGS, REASSIGN):
        programs.add(f"{name}.sh")
    for name, value in {"FORCE": "1", "BOOTSTRAP": "other:1", "COMMAND_CONFIG": "/other", "MINE": "kept"}.items():
        monkeypatch.setenv(name, value)
    names = ["BOOTSTRAP", "COMMAND_CONFIG", "KAFKA_CONFIGS", "KAFKA_REASSIGN", "MINE"]
    lock = (programs.folder / "lock").open("w")
    os.set_inheritable(lock.fileno(), True)
    script = "\n".join(
        [
            f'[ -e /proc/$$/fd/{lock.fileno()} ] && echo "holds the lock"',
            'cat "$(dirname "$0")/reassignment.json"',
            *(f'echo "{name}=${name}"' for name in names),
            'echo "FORCE=${FORCE-none}"; cat; echo owed >&2; exit 5',
        ]
    )
    result = programs.tools("/c").script({"a.sh": script, "reassignment.json": "{}\n", "b.sh": "exit 1"}, "a.sh")
    assert (result.exit_code, result.err) == (5, "owed\n")
    lock.close()
    assert result.out.splitlines() == [
        "holds the lock",
        "{}",
        "BOOTSTRAP=h:1",
        "COMMAND_CONFIG=/c",
        f"KAFKA_CONFIGS={programs.folder}/kafka-configs.sh",
        f"KAFKA_REASSIGN={programs.folder}/kafka-reassign-partitions.sh",
        "MINE=kept",
        "FORCE=none",
    ]
