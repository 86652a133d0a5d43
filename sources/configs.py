"""``kafka-configs.sh --describe`` of topics and brokers, old (0.9 to 2.4) and new (2.5 to 4.3) forms.

Old: ``Configs for topic 'x' are a=1,b=2`` on one line; nothing follows ``are`` if nothing is set. A comma separates
two configs only if a name and ``=`` follow it.
New: ``Dynamic configs for broker 3 are:`` and then ``name=value sensitive=false synonyms={...}``, read from the right.
Sensitive values are never stored. Entities other than topics and brokers are skipped, and so are the defaults that
``--all`` prints.

References
----------
``kafka.admin.ConfigCommand`` (0.9 to 4.3): ``describeConfig``, ``describeResourceConfig``.
"""

import re
from collections.abc import Iterator

from sources.record import Record, malformed
from sources.text import ELISION, lines_of

EXPECTED = "kafka-configs.sh --describe"
REMEDY = "supply the complete output, with its headings, such as 'Dynamic configs for broker N are:'"
DEFAULT_NAME = "<default>"
# The first synonym names the source of the effective value. Only --all prints these two sources.
_STATIC, _DEFAULT = "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG"

_NEW = re.compile(
    r"[\s>#]*(?:(?:Dynamic|All) configs|Configs) for (?P<type>topic|broker) (?P<name>\S+) are:\s*"
    r"|[\s>#]*Default configs? for (?P<defaults>\S+) in the cluster are:\s*"  # "config" in 1.1 to 2.4
)
_OTHER = re.compile(
    r"[\s>#]*(?:Dynamic|All|Default|Quota) configs for (?:the )?(?:<?default>? )?"
    r"(?:user|client|ip|group|broker-logger|controller).* are:?\s*.*"
)
_MARK = r" sensitive=(?:true|false) synonyms="
_TWO_IN_ONE = re.compile(rf"{_MARK}(?:\{{[^}}]*\}}\s*\S.* sensitive=|.*{_MARK})")
_HEADING = re.compile(r"[\s>#]*(?:(?:Dynamic|All|Default|Quota) configs? for|Configs for (?:topic|broker))\b")
_VALUE = re.compile(r"\s+\S.*|[A-Za-z][\w.-]*=.*")
_OLD = re.compile(
    r"[\s>#]*Configs for (?:default )?(?P<type>topic|broker)s?[ :]?(?P<name>\S*) are(?: (?P<configs>.*))?", re.DOTALL
)
_ENTRY = re.compile(
    r"[\s>#]*(?P<name>[A-Za-z][\w.-]*)=(?P<value>.*) sensitive=(?P<sensitive>true|false)"
    r"(?: synonyms=\{?(?P<source>[A-Z_]*).*)?"
)
_NEXT_CONFIG = re.compile(r",\s*(?=[A-Za-z][\w.-]*=)")
_CONTINUED = re.compile(r"\s+[A-Za-z][\w.-]*=\S.*|\s*[0-9][0-9:,]*\s*")
_SECRET = re.compile(r"password|secret|jaas|credential|(?:^|\.)key$|private", re.IGNORECASE)


def recognises(text: str) -> bool:
    """Whether the text has a heading or an entry of the tool."""
    return _names_entity(text) or " sensitive=" in text


def _names_entity(text: str) -> bool:
    """Whether the text may contain a heading (a cheap test)."""
    return "onfigs for " in text or "config for " in text


def has_heading(text: str) -> bool:
    """Whether the text describes an entity, with or without configs."""
    return _names_entity(text) and any(_NEW.fullmatch(line) or _is_old(line) for line in lines_of(text))


def _is_old(line: str) -> bool:
    """Whether a line is a heading of the old form, with or without configs after it."""
    return _OLD.fullmatch(line) is not None and line.count("onfigs for ") == 1


def parse(text: str) -> Iterator[Record]:
    """Yield one record per config."""
    lines = lines_of(text)
    entity: tuple[str, str] | None = None
    below_heading, inside, index = False, False, 0
    while index < len(lines):
        line, used = lines[index], 1
        is_of_tool = True
        if (heading := _NEW.fullmatch(line)) is not None:
            entity, below_heading = _entity(heading), True
        elif "onfigs for " in line and _is_old(line):
            used = _old_lines(lines, index)
            yield from _old_entries(index, " ".join(part.strip() for part in lines[index : index + used]))
            entity, below_heading = None, False
        elif "onfigs for " in line and _OTHER.fullmatch(line):
            entity, below_heading = None, True
        elif " sensitive=" in line:
            yield from _new_entry(index, line, entity, below_heading)
            below_heading = below_heading or entity is None
        elif _HEADING.match(line) or (below_heading and _VALUE.fullmatch(line)):
            yield _malformed(index, line, "this heading or config is cut off or damaged")
            entity, below_heading = (None, False) if _HEADING.match(line) else (entity, below_heading)
        elif line.strip():
            is_of_tool = False
            if ELISION.match(line) and (inside or _is_of_tool(lines[index + 1 : index + 2])):
                yield _malformed(index, line, "lines were left out here ('...'), so configs are missing")
            entity, below_heading = None, False
        inside = is_of_tool
        index += used


def _is_of_tool(lines: list[str]) -> bool:
    """Whether any of the lines is this tool's."""
    return any(_HEADING.match(line) or " sensitive=" in line for line in lines)


def _entity(heading: re.Match[str]) -> tuple[str, str] | None:
    """Type and name of the entity; None for an entity that planning does not need."""
    defaults = heading["defaults"]
    if defaults is not None:
        return ("cluster", DEFAULT_NAME) if defaults in {"brokers", "broker"} else None
    return f"{heading['type']}s", heading["name"].strip("'")


def _new_entry(index: int, line: str, entity: tuple[str, str] | None, below_heading: bool) -> Iterator[Record]:
    match = _ENTRY.fullmatch(line)
    if _HEADING.match(line) or _TWO_IN_ONE.search(line):
        yield _malformed(index, line, "two output lines are joined into one")
    elif entity is None and not below_heading:
        yield _malformed(
            index, line, "no heading above this line names the broker or topic of the configs here and below"
        )
    elif match is None:
        yield _malformed(index, line, "the line does not have the form 'name=value sensitive=false synonyms={...}'")
    elif entity is not None and match["source"] != _DEFAULT:
        sensitive = match["sensitive"] == "true" or _SECRET.search(match["name"]) is not None
        is_static = match["source"] == _STATIC
        yield _config(index, entity, match["name"], match["value"], sensitive, is_static=is_static)


def _old_lines(lines: list[str], index: int) -> int:
    """Number of lines of an old-style description, which may be wrapped."""
    used = 1
    while (
        index + used < len(lines)
        and _CONTINUED.fullmatch(lines[index + used])
        and " sensitive=" not in lines[index + used]
    ):
        used += 1
    return used


def _old_entries(index: int, line: str) -> Iterator[Record]:
    match = _OLD.fullmatch(line)
    if match is None:
        yield _malformed(index, line, "the line does not have the form \"Configs for topic 'x' are a=1,b=2\"")
        return
    name = match["name"].strip("'")
    entity = (f"{match['type']}s", name) if name else ("cluster", DEFAULT_NAME)
    configs = (match["configs"] or "").strip()
    for entry in _NEXT_CONFIG.split(configs) if configs else []:
        key, equals, value = entry.partition("=")
        if not equals:
            yield _malformed(index, entry, f"the config {key[:80]!r} has no '='")
            continue
        yield _config(index, entity, key.strip(), value.strip(), _SECRET.search(key) is not None)


def _config(
    index: int, entity: tuple[str, str], name: str, value: str, sensitive: bool, *, is_static: bool = False
) -> Record:
    payload = {
        "entity_type": entity[0],
        "entity_name": entity[1],
        "name": name,
        "value": None if sensitive or value == "null" else value,
        "sensitive": sensitive,
        "is_static": is_static,
    }
    return Record("config", index + 1, payload)


def _malformed(index: int, line: str, reason: str) -> Record:
    """A malformed record with the config's name but never its value, which may be a secret."""
    shown = line.partition("=")[0]
    return malformed(line=index + 1, expected=EXPECTED, reason=reason, remedy=REMEDY, text=shown)
