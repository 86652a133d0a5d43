"""Lines in which a tool reports an error: its output is probably incomplete.

Warnings do not count: healthy outputs have them. An error and its stack trace are one record, at the first line. A
failure of ``kafka-consumer-groups.sh`` is a warning, because consumer groups are an optional input. If another tool's
failure is next to it, each has a record: the output of the other tool is incomplete.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from sources.consumer_notices import is_failure, is_notice
from sources.record import TOOL_ERROR, Record, malformed
from sources.text import lines_of

EXPECTED = "the complete output of a tool"
REMEDY = "fix the reported problem, run the tool again and supply its complete output"

_TIME = r"\d{4}-\d\d-\d\d[ T][\d:,.]+Z?"
_CLOCK = r"\d\d:\d\d:\d\d[.,\d]*"
_ERROR = re.compile(
    r"[\s>#]*(?:"
    r"Error: \S"
    r"|Error while (?:executing|running|parsing) \S"
    r"|Exception in thread \""
    r"|(?:Caused by: )?(?:[a-z][\w$]*\.)+[\w$]*(?:Exception|Error)(?::\s|\s*$)"
    rf"|\[{_TIME}\] (?:ERROR|FATAL) "
    rf"|{_TIME} (?:\[[^\]]*\] )?(?:ERROR|FATAL)\b"
    r"|[\s>#]*\s+at (?:[\w$]+\.)+[\w$<>]+\([^()]*\)\s*$"
    rf"|{_CLOCK} \[[^\]]*\] (?:ERROR|FATAL)\b"
    r"|Terminating due to java\."
    r"|Killed\s*$"
    r"|error: \S.*(?:connection|server|container|pod)\b"
    r"|Error (?:from server|response from daemon)\b"
    r"|\S+: .*: No space left on device\s*$"
    r"|Connection to \S+ closed by remote host"
    r"|Timed out waiting for a node assignment"
    r"|command terminated with exit code [1-9]"
    r"|(?:-?\w*sh: )?(?:line \d+: )?\S*kafka-[a-z-]+(?:\.sh)?: (?:command )?(?:not found|No such file or directory)"
    r")"
)
_WORDS = (
    "\tat ",
    "  at ",
    "rror",
    "ERROR",
    "FATAL",
    "xception",
    "Timed out",
    "terminated with",
    "not found",
    "No such file",
    "Terminating due",
    "Killed",
    "No space left",
    "closed by remote",
)
# Lines that do not show which tool failed: exceptions and logs. A process without memory has ended at such a line.
_UNNAMED = re.compile(
    r"(?!.*OutOfMemoryError)"
    rf"[\s>#]*(?:(?:[a-z][\w$]*\.)+[\w$]*(?:Exception|Error)(?::|\s|$)|\[?{_TIME}\]? |{_CLOCK} )"
)
# A line of another tool: its command in a message, its class in a trace or a log.
_OTHER_TOOL = re.compile(
    r"[\s>#]*Error while (?:executing|running|parsing) (?!consumer group)"
    r"|[\s>#]*(?:Error|Timed out)\b.*(?:[Rr]eassign|\b(?:topic|config) command|\blog ?dir|(?:LogDirs|Configs)\b)"
    r"|\b(?!ConsumerGroup)[A-Z]\w*Command\b"
)
# What a line says about the tool that failed. ``_ANY``: nothing; it may also belong to the failure before or below it.
_ANY, _UNKNOWN, _OTHER, _CONSUMER = "any tool", "unknown tool", "other tool", "consumer tool"
_CONTINUES = re.compile(r"\s+at \S+\(|\s+\.\.\. \d+ more|[\s>#]*Caused by: |\s*\(\S+\)\s*$")


def is_error(line: str) -> bool:
    """Whether a tool reports an error in this line."""
    return any(word in line for word in _WORDS) and _ERROR.match(line) is not None


def parse(text: str, *, has_only_groups: bool = False) -> Iterator[Record]:
    """Yield one record per run of error lines of the same severity, at its first line.

    Parameters
    ----------
    text : str
        The text.
    has_only_groups : bool
        Whether the text has nothing but consumer groups: then only an error that names another tool is no warning.
    """
    if not any(word in text for word in _WORDS):
        return
    run: list[tuple[int, str]] = []
    for number, line in enumerate(lines_of(text), 1):
        failed = is_error(line) and not is_notice(line)
        if failed or (run and _CONTINUES.match(line) is not None):
            run.append((number, line))
        elif run:
            yield from _records(run, has_only_groups=has_only_groups)
            run = []
    yield from _records(run, has_only_groups=has_only_groups)


def _records(run: Sequence[tuple[int, str]], *, has_only_groups: bool) -> Iterator[Record]:
    """One record for each part of a run with one severity."""
    blocks: list[list[tuple[int, str]]] = []
    for number, line in run:
        if blocks and _CONTINUES.match(line) is not None:
            blocks[-1].append((number, line))
        else:
            blocks.append([(number, line)])
    tools = _known_tools([_tool_of([line for _, line in block]) for block in blocks])
    optional = {_CONSUMER, _UNKNOWN, _ANY} if has_only_groups else {_CONSUMER}
    pairs = [(tool in optional, block[0]) for tool, block in zip(tools, blocks, strict=True)]
    for is_optional, firsts in groupby(pairs, key=lambda pair: pair[0]):
        number, line = next(firsts)[1]
        yield _record(number, line, "warning" if is_optional else "error")


def _tool_of(block: Sequence[str]) -> str:
    """The tool of an error line and its trace: the first line that names a tool decides."""
    for line in block:
        if is_failure(line):
            return _CONSUMER
        if _OTHER_TOOL.search(line):
            return _OTHER
    return _ANY if _UNNAMED.match(block[0]) or _CONTINUES.match(block[0]) else _UNKNOWN


def _known_tools(tools: Sequence[str]) -> list[str]:
    """The tools, where a block of any tool belongs to the block before it; at the start, to the one after it."""
    last = next((tool for tool in tools if tool != _ANY), _ANY)
    known = []
    for tool in tools:
        last = last if tool == _ANY else tool
        known.append(last)
    return known


def _record(number: int, line: str, severity: str) -> Record:
    # The arguments of a command may contain a password.
    message = line.strip().partition(" with args ")[0][:200]
    reason = f"a tool reported an error here, so its output may be incomplete: {message}"
    return malformed(
        line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=message, rule=TOOL_ERROR, severity=severity
    )
