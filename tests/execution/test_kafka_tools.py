"""Kafka's tools as programs: their paths, their arguments, and the messages if they fail."""

import os
import shlex
from pathlib import Path

import pytest

from execution.kafka_tools import REASSIGN, KafkaTools, ToolResult
from optimizer.errors import BallastError
from stored.verdicts import Refused

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
    assert not KafkaTools("h:1").is_there
    with pytest.raises(
        Refused,
        match=r"^kafka-reassign-partitions\.sh is not on PATH: give the folder of Kafka's tools with --kafka-bin$",
    ):
        _ = KafkaTools("h:1").path
    plain = programs.add(REASSIGN)
    for tools in (KafkaTools("h:1"), programs.tools()):
        assert (tools.path, tools.is_there) == (str(plain), True)
    whole = programs.add(f"{REASSIGN}.sh")
    assert programs.tools().path == str(whole)


def test_a_tool_must_be_in_a_given_folder(programs: Bin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without it is refused, although the tool is on PATH; without a folder and a tool it is not needed."""
    monkeypatch.setenv("PATH", str(programs.folder))
    assert KafkaTools("h:1").check() == ""
    programs.add(f"{REASSIGN}.sh", out="4.3.1 (Commit:x)\n")
    nowhere = KafkaTools("h:1", folder="/nowhere")
    assert nowhere.is_there
    message = r"^kafka-reassign-partitions\.sh is not in /nowhere: give the folder of Kafka's tools with --kafka-bin$"
    for call in (nowhere.check, lambda: nowhere.reassign(LISTS, "--execute")):
        with pytest.raises(Refused, match=message):
            call()


def test_a_tool_must_start(programs: Bin) -> None:
    """Java may be missing."""
    programs.add(f"{REASSIGN}.sh", out="4.3.1 (Commit:x)\n")
    assert programs.tools().check() == "4.3.1 (Commit:x)"
    assert programs.arguments() == ["--version"]
    programs.add(f"{REASSIGN}.sh", err="java: not found", code=127)
    with pytest.raises(Refused, match=r"reassign-partitions\.sh does not start \(is Java installed\?\): java: not"):
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


def test_a_tool_keeps_the_lock_of_its_step(programs: Bin) -> None:
    """If the step is killed, the tool still runs and no other step may start."""
    lock = (programs.folder / "lock").open("w")
    os.set_inheritable(lock.fileno(), True)
    program = programs.add(f"{REASSIGN}.sh")
    program.write_text(f'#!/bin/sh\n[ -e /proc/$$/fd/{lock.fileno()} ] && echo "holds the lock"; cat\n')
    assert programs.tools().reassign_document(DOCUMENT, "--execute") == "holds the lock\n"
    lock.close()
