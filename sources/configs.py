"""``kafka-configs.sh --describe`` of topics and brokers, old (0.9 to 2.4) and new (2.5 to 4.3) forms.

Old: ``Configs for topic 'x' are a=1,b=2``, on one line; nothing is behind ``are`` where nothing is set. A comma parts
two configs only where a name and ``=`` follow.
New: ``Dynamic configs for broker 3 are:`` and then ``name=value sensitive=false synonyms={...}``, read from the right.
A sensitive value is never kept. Entities other than topics and brokers are passed over; so are the defaults that
``--all`` prints, which nobody has set.

References
----------
``kafka.admin.ConfigCommand`` (0.9 to 4.3): ``describeConfig``, ``describeResourceConfig``.
"""

import re
from collections.abc import Iterator

from sources.record import Record, malformed
from sources.text import ELISION, lines_of

EXPECTED = "kafka-configs.sh --describe"
REMEDY = "supply the tool's output with its line 'Dynamic configs for broker N are:'"
DEFAULT_NAME = "<default>"
# What the first synonym says of the value in force: only --all prints these two.
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
    """Whether there may be a heading: a cheap look."""
    return "onfigs for " in text or "config for " in text


def has_heading(text: str) -> bool:
    """Whether the text describes some entity, be it one without configs."""
    return _names_entity(text) and any(_NEW.fullmatch(line) or _is_old(line) for line in lines_of(text))


def _is_old(line: str) -> bool:
    """Whether a line is a heading of the old form, with its configs behind it or with none."""
    return _OLD.fullmatch(line) is not None and line.count("onfigs for ") == 1


def parse(text: str) -> Iterator[Record]:
    """One record a config."""
    lines = lines_of(text)
    entity: tuple[str, str] | None = None
    known, inside, index = False, False, 0
    while index < len(lines):
        line, used = lines[index], 1
        is_ours = True
        if (heading := _NEW.fullmatch(line)) is not None:
            entity, known = _entity(heading), True
        elif "onfigs for " in line and _is_old(line):
            used = _old_lines(lines, index)
            yield from _old_entries(index, " ".join(part.strip() for part in lines[index : index + used]))
            entity, known = None, False
        elif "onfigs for " in line and _OTHER.fullmatch(line):
            entity, known = None, True
        elif " sensitive=" in line:
            yield from _new_entry(index, line, entity, known)
            known = known or entity is None
        elif _HEADING.match(line) or (known and _VALUE.fullmatch(line)):
            yield _fault(index, line, "a heading or a config that is cut off or damaged")
            entity, known = (None, False) if _HEADING.match(line) else (entity, known)
        elif line.strip():
            is_ours = False
            if ELISION.match(line) and (inside or _is_ours(lines[index + 1 : index + 2])):
                yield _fault(index, line, "lines were left out here ('...'), so configs are missing")
            entity, known = None, False
        inside = is_ours
        index += used


def _is_ours(lines: list[str]) -> bool:
    """Whether a line is of this tool."""
    return any(_HEADING.match(line) or " sensitive=" in line for line in lines)


def _entity(heading: re.Match[str]) -> tuple[str, str] | None:
    """Type and name; None for an entity that placement doesn't need."""
    defaults = heading["defaults"]
    if defaults is not None:
        return ("cluster", DEFAULT_NAME) if defaults in {"brokers", "broker"} else None
    return f"{heading['type']}s", heading["name"].strip("'")


def _new_entry(index: int, line: str, entity: tuple[str, str] | None, known: bool) -> Iterator[Record]:
    match = _ENTRY.fullmatch(line)
    if _HEADING.match(line) or _TWO_IN_ONE.search(line):
        yield _fault(index, line, "two lines of the tool stand on one")
    elif entity is None and not known:
        yield _fault(index, line, "no line above says whose configs these are (this line and those below it)")
    elif match is None:
        yield _fault(index, line, "not 'name=value sensitive=false synonyms={...}'")
    elif entity is not None and match["source"] != _DEFAULT:
        sensitive = match["sensitive"] == "true" or _SECRET.search(match["name"]) is not None
        is_static = match["source"] == _STATIC
        yield _config(index, entity, match["name"], match["value"], sensitive, is_static=is_static)


def _old_lines(lines: list[str], index: int) -> int:
    """How many lines an old-style description takes: it may be wrapped."""
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
        yield _fault(index, line, "not \"Configs for topic 'x' are a=1,b=2\"")
        return
    name = match["name"].strip("'")
    entity = (f"{match['type']}s", name) if name else ("cluster", DEFAULT_NAME)
    configs = (match["configs"] or "").strip()
    for entry in _NEXT_CONFIG.split(configs) if configs else []:
        key, equals, value = entry.partition("=")
        if not equals:
            yield _fault(index, entry, f"the config {key[:80]!r} has no '='")
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


def _fault(index: int, line: str, reason: str) -> Record:
    """A malformed record that keeps the config's name but never its value, which may be a secret."""
    shown = line.partition("=")[0]
    return malformed(line=index + 1, expected=EXPECTED, reason=reason, remedy=REMEDY, text=shown)
