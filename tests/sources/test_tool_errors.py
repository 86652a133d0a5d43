"""Lines in which a tool says that it failed."""

import pytest

from sources.detect import parse_any

LINE = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
ERRORS = [
    "Error while executing topic command : Call(callName=describeTopics) timed out at 1 after 2 attempt(s)",
    "Error while executing config command with args '--bootstrap-server b:9092'",
    'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
    "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listTopics",
    "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: no",
    "Caused by: org.apache.kafka.common.errors.DisconnectException",
    "[2026-01-31 02:00:00,123] ERROR Timed out (org.apache.kafka.tools.TopicCommand)",
    "2026-01-31 02:00:00.123 ERROR tool failed",
    "Error: Timed out",
    "Timed out waiting for a node assignment. Call: describeLogDirs",
    "command terminated with exit code 137",
    "bash: kafka-topics.sh: command not found",
    "> Error: Timed out",
    "Killed",
    "Terminating due to java.lang.OutOfMemoryError: Java heap space",
    "error: unable to upgrade connection: container not found",
    "Error from server (NotFound): pods not found",
    "Error response from daemon: no such container",
    "tee: out.txt: No space left on device",
    "Connection to kafka-1 closed by remote host.",
    "12:00:01.123 [main] ERROR kafka.admin - boom",
]


@pytest.mark.parametrize("error", ERRORS)
def test_a_tool_that_fails_between_its_lines_is_told(error: str) -> None:
    """The line where the tool failed is an error of its own rule; what stands around it is read."""
    records = parse_any(f"{LINE}{error}\n\tat a.b.C(D.java:1)\n{LINE.replace('0', '1')}", name="x")
    assert [(record.kind, record.line) for record in records] == [("partition", 1), ("malformed", 2), ("partition", 4)]
    assert (records[1].payload["rule"], records[1].payload["severity"]) == ("tool_error", "error")


HARMLESS = [
    "[2026-01-31 02:00:00,123] WARN [AdminClient clientId=x] Connection to node 1 failed (o.a.k.NetworkClient)",
    "WARNING: Due to limitations in metric names, topics with a period ('.') could collide.",
    "OpenJDK 64-Bit Server VM warning: Sharing is only supported for boot loader classes",
    "An error: what a tool prints when it fails.",
    "Errors are told below.",
    "Killed by whom, nobody knows.",
    "error: of what kind it was nobody knows",
    "We saw a TimeoutException: it went away.",
    "| ERROR | is a level |",
]


@pytest.mark.parametrize("line", HARMLESS)
def test_warnings_and_prose_are_no_errors(line: str) -> None:
    """What healthy outputs and transcripts have beside the tool's lines is passed over."""
    assert [record.kind for record in parse_any(f"{LINE}\n{line}\n", name="x")] == ["partition"]


def test_one_failure_is_told_once() -> None:
    """An error, its stack trace, its cause and the name of the tool are one record; a later error is another."""
    cause = "Caused by: org.a.CException\n\t... 3 more\n (org.a.B)\n"
    trace = f"Error: Timed out\norg.a.BException: no\n\tat a.b.C(D.java:1)\n{cause}"
    records = parse_any(f"{LINE}{trace}{LINE}{trace}", name="x")
    assert [record.line for record in records if record.kind == "malformed"] == [2, 9]


def test_arguments_of_a_command_are_not_kept() -> None:
    """They may hold a password."""
    error = "Error while executing config command with args '--add-config SCRAM-SHA-256=[password=hunter2]'"
    assert "hunter2" not in repr(parse_any(f"{LINE}{error}\n", name="x"))


VERSIONS = "h:9092 (id: 1 rack: a) -> (\n\tProduce(0): 0 to 13 [usable: 13],\n"
CUT = [
    (VERSIONS, [("broker", 1), ("malformed", 2)]),
    (f"{VERSIONS}h:9092 (id: 2 rack: a) -> (\n)\n", [("broker", 1), ("malformed", 2), ("broker", 3)]),
    (f"{VERSIONS})\nh:9093 (id: 2 rack: nul", [("broker", 1), ("malformed", 4)]),
    (f"{VERSIONS})\nh:9093 (id: 2 rack: a isFenced: maybe) -> (", [("broker", 1), ("malformed", 4)]),
    (f"{VERSIONS})\n", [("broker", 1)]),
    ("h:9092 (id: 1 rack: a) -> (\nh:9093 (id: 2 rack: a) -> (\n", [("broker", 1), ("broker", 2)]),
]


@pytest.mark.parametrize(("text", "expected"), CUT)
def test_a_list_of_brokers_that_was_cut_off_is_refused(text: str, expected: list[tuple[str, int]]) -> None:
    """Versions without an end, and half a line, are named; lines of brokers alone, as grep gives them, are read."""
    assert [(record.kind, record.line) for record in parse_any(text, name="x")] == expected


KCAT = "Metadata for all topics (from broker 1: b:9092/1):\n 1 brokers:\n  broker 1 at b:9092 (controller)\n"


@pytest.mark.parametrize("line", ["  broker 2 at ", '  topic "t" with 2 par', "    partition 0, leader 1, repl"])
def test_a_line_of_kcat_that_was_cut_off_is_refused(line: str) -> None:
    """Half a broker, topic or partition is named with its line."""
    records = parse_any(KCAT + line, name="x")
    assert [(record.kind, record.line) for record in records] == [("broker", 3), ("malformed", 4)]


def test_json_with_our_names_in_no_shape_of_ours_is_refused() -> None:
    """A document whose outer names are damaged is named beside what else the text holds."""
    damaged = '{"brokrs":[{"broker":1,"logDirs":[{"logDir":"/d","partitions":[]}]}]}'
    records = parse_any(f"{LINE}\n{damaged}\n", name="x")
    assert [(record.kind, record.line) for record in records] == [("partition", 1), ("malformed", 3)]
