"""Lines in which a tool reports an error."""

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
def test_an_error_between_lines_of_output_is_reported(error: str) -> None:
    """The error line is a record with the rule ``tool_error``; the lines around it are read."""
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
    """Lines that healthy outputs and transcripts contain are skipped."""
    assert [record.kind for record in parse_any(f"{LINE}\n{line}\n", name="x")] == ["partition"]


def test_an_error_is_reported_once() -> None:
    """An error, its stack trace, its cause and the name of the tool are one record; a later error is another."""
    cause = "Caused by: org.a.CException\n\t... 3 more\n (org.a.B)\n"
    trace = f"Error: Timed out\norg.a.BException: no\n\tat a.b.C(D.java:1)\n{cause}"
    records = parse_any(f"{LINE}{trace}{LINE}{trace}", name="x")
    assert [record.line for record in records if record.kind == "malformed"] == [2, 9]


def test_arguments_of_a_command_are_left_out() -> None:
    """They may contain a password."""
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
def test_a_cut_list_of_brokers_is_refused(text: str, expected: list[tuple[str, int]]) -> None:
    """Versions without an end and half a line are reported; broker lines alone, as from grep, are read."""
    assert [(record.kind, record.line) for record in parse_any(text, name="x")] == expected


KCAT = "Metadata for all topics (from broker 1: b:9092/1):\n 1 brokers:\n  broker 1 at b:9092 (controller)\n"


@pytest.mark.parametrize("line", ["  broker 2 at ", '  topic "t" with 2 par', "    partition 0, leader 1, repl"])
def test_a_cut_line_of_kcat_is_refused(line: str) -> None:
    """Half a broker, topic or partition is reported with its line."""
    records = parse_any(KCAT + line, name="x")
    assert [(record.kind, record.line) for record in records] == [("broker", 3), ("malformed", 4)]


def test_json_with_known_keys_in_an_unknown_structure_is_refused() -> None:
    """A document with damaged outer keys is reported next to the other records of the text."""
    damaged = '{"brokrs":[{"broker":1,"logDirs":[{"logDir":"/d","partitions":[]}]}]}'
    records = parse_any(f"{LINE}\n{damaged}\n", name="x")
    assert [(record.kind, record.line) for record in records] == [("partition", 1), ("malformed", 3)]


TOPIC_FAILED = "Error while executing topic command : Timed out\n"
LOGGED = "[2026-01-31 02:00:00,123] ERROR java.util.concurrent.TimeoutException: Timed out (a.b.Admin)\n"
GROUPS_FAILED = "Error: Executing consumer group command failed due to java.util.concurrent.TimeoutException: no\n"
TRACE = (
    "java.lang.RuntimeException: no\n\tat org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.run(X.java:1)\n"
)
MIXED = [
    (TOPIC_FAILED + LOGGED + GROUPS_FAILED, [(2, "error"), (4, "warning")]),
    (TOPIC_FAILED + GROUPS_FAILED + TRACE, [(2, "error"), (3, "warning")]),
    (GROUPS_FAILED + TRACE + TOPIC_FAILED, [(2, "warning"), (5, "error")]),
    (TRACE + GROUPS_FAILED + LOGGED, [(2, "warning")]),
    (LOGGED + GROUPS_FAILED, [(2, "warning")]),
    (
        LOGGED.replace("a.b.Admin", "org.apache.kafka.tools.TopicCommand") + GROUPS_FAILED,
        [(2, "error"), (3, "warning")],
    ),
    ("Error: Timed out\n" + GROUPS_FAILED, [(2, "error"), (3, "warning")]),
    ("java.lang.OutOfMemoryError: Java heap space\n" + GROUPS_FAILED, [(2, "error"), (3, "warning")]),
    ('Exception in thread "main" java.lang.OutOfMemoryError: x\n' + GROUPS_FAILED, [(2, "error"), (3, "warning")]),
    (GROUPS_FAILED + "command terminated with exit code 1\n", [(2, "warning"), (3, "error")]),
    (GROUPS_FAILED + TRACE + "Caused by: a.b.TimeoutException: the log dir is away\n\t... 3 more\n", [(2, "warning")]),
]


@pytest.mark.parametrize(("errors", "expected"), MIXED)
def test_a_failure_about_groups_hides_no_other_failure(errors: str, expected: list[tuple[int, str]]) -> None:
    """Another tool's error next to it stays an error; exceptions and logs belong to the failure next to them."""
    records = [record for record in parse_any(LINE + errors, name="x") if record.kind == "malformed"]
    assert [(record.line, record.payload["severity"]) for record in records] == expected


GROUPS = (
    "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE           #MEMBERS\n"
    "g               b:9092 (1)                range                Stable          2\n"
)
ONLY_GROUPS = [
    (TOPIC_FAILED, "error"),
    ("Error while executing config command with args '--describe'\n", "error"),
    (TOPIC_FAILED + GROUPS_FAILED, "error"),
    (LOGGED + TOPIC_FAILED, "error"),
    ("Error: Cannot execute because there is an existing partition reassignment\n", "error"),
    ("Timed out waiting for a node assignment. Call: describeLogDirs\n", "error"),
    ("Error: Timed out\n", "warning"),
    (LOGGED, "warning"),
    ("Timed out waiting for a node assignment. Call: listGroups\n", "warning"),
    ("Error while executing consumer group command : Timed out\n", "warning"),
    ("command terminated with exit code 137\n", "warning"),
]


@pytest.mark.parametrize("name", ["x", "consumer-states.txt"])
@pytest.mark.parametrize(("errors", "severity"), ONLY_GROUPS)
def test_groups_do_not_hide_the_failure_of_another_tool(errors: str, severity: str, name: str) -> None:
    """In a text with only consumer groups, an error is a warning, except that of a tool that it names."""
    for text in (errors + GROUPS, GROUPS + "\n" + errors):
        records = parse_any(text, name=name)
        assert [record.kind for record in records].count("consumer_group") == 1
        assert next(r.payload["severity"] for r in records if r.kind == "malformed") == severity
