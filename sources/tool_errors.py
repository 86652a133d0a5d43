"""Lines in which a tool reports an error: its output is probably incomplete.

Warnings do not count: healthy outputs have them. An error and its stack trace are one record, at the first line. A
failure of ``kafka-consumer-groups.sh`` is a warning, because consumer groups are an optional input.
"""

import re
from collections.abc import Iterator

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
_CONTINUES = re.compile(r"\s+at \S+\(|\s+\.\.\. \d+ more|[\s>#]*Caused by: |\s*\(\S+\)\s*$")


def is_error(line: str) -> bool:
    """Whether a tool reports an error in this line."""
    return any(word in line for word in _WORDS) and _ERROR.match(line) is not None


def parse(text: str) -> Iterator[Record]:
    """Yield one record per run of error lines, at its first line."""
    if not any(word in text for word in _WORDS):
        return
    begun: tuple[int, str] | None = None
    severity = "error"
    for number, line in enumerate(lines_of(text), 1):
        failed = is_error(line) and not is_notice(line)
        if begun is not None and not failed and _CONTINUES.match(line) is None:
            yield _record(*begun, severity)
            begun = None
        if failed and begun is None:
            begun, severity = (number, line), "error"
        if begun is not None and is_failure(line):
            severity = "warning"
    if begun is not None:
        yield _record(*begun, severity)


def _record(number: int, line: str, severity: str) -> Record:
    # The arguments of a command may contain a password.
    message = line.strip().partition(" with args ")[0][:200]
    reason = f"a tool reported an error here, so its output may be incomplete: {message}"
    return malformed(
        line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=message, rule=TOOL_ERROR, severity=severity
    )
