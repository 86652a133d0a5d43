"""The columns of ``kafka-consumer-groups.sh``: headers, and the cells of a line by the header's positions.

Groups, client ids and so member ids may contain blanks, so only the header's positions separate the columns. The tool
pads each cell; a cell that is longer than its column shifts the rest of the line.

References
----------
Formats of ``printOffsets``, ``printMembers``, ``printStates`` and ``printGroupInfo`` in
``org.apache.kafka.tools.consumer.group.ConsumerGroupCommand`` (3.8 to 4.3) and ``kafka.admin.ConsumerGroupCommand``
(0.9 to 3.7).
"""

import re
from dataclasses import dataclass

OFFSETS, MEMBERS, STATES, LIST, OTHER = "offsets", "members", "states", "list", "other"
# Tables of kafka-share-groups.sh and kafka-streams-groups.sh, by the groups that they are about.
SHARE, STREAMS, SHARE_OR_STREAMS = "share", "streams", "share or streams"
NOT_CONSUMERS = (SHARE, STREAMS, SHARE_OR_STREAMS)
GROUP, COORDINATOR = "GROUP", "COORDINATOR (ID)"
# Columns of each table in the tool's order; optional columns are in brackets.
_TABLES = (
    (
        OFFSETS,
        "[GROUP] TOPIC PARTITION [LEADER-EPOCH] CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID [HOST] [CLIENT-ID]",
    ),
    (OFFSETS, "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG OWNER"),
    (MEMBERS, "[GROUP] CONSUMER-ID [GROUP-INSTANCE-ID] HOST CLIENT-ID #PARTITIONS [ASSIGNMENT]"),
    (
        MEMBERS,
        "GROUP CONSUMER-ID [GROUP-INSTANCE-ID] HOST CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH"
        " TARGET-ASSIGNMENT [UPGRADED]",
    ),
    (STATES, "[GROUP] COORDINATOR_(ID) ASSIGNMENT-STRATEGY STATE #MEMBERS"),
    (STATES, "GROUP COORDINATOR_(ID) ASSIGNMENT-STRATEGY STATE GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS"),
    (LIST, "GROUP [TYPE] STATE"),
    (LIST, "GROUP TYPE"),
    (LIST, "GROUP TYPE PROTOCOL"),
    (SHARE, "GROUP TOPIC PARTITION [LEADER-EPOCH] START-OFFSET [LAG]"),
    (SHARE, "GROUP CONSUMER-ID HOST CLIENT-ID [#PARTITIONS] [MEMBER-EPOCH] ASSIGNMENT"),
    (
        SHARE_OR_STREAMS,
        "GROUP COORDINATOR_(ID) STATE [GROUP-EPOCH] [ASSIGNMENT-EPOCH] [TARGET-ASSIGNMENT-EPOCH] #MEMBERS",
    ),
    (STREAMS, "GROUP TOPIC PARTITION [CURRENT-OFFSET] [LEADER-EPOCH] [LOG-END-OFFSET] OFFSET-LAG"),
    (
        STREAMS,
        "GROUP [TARGET-ASSIGNMENT-EPOCH] [TOPOLOGY-EPOCH] MEMBER [MEMBER-PROTOCOL] [MEMBER-EPOCH] PROCESS CLIENT-ID"
        " ASSIGNMENTS",
    ),
)
_COLUMN = re.compile(r"COORDINATOR \(ID\)|\S+")


def _pattern(columns: str) -> re.Pattern[str]:
    """Matches the names of a header, each followed by one blank."""
    words = (re.escape(word.strip("[]")) + " " for word in columns.split())
    options = (f"(?:{word})?" if "[" in column else word for word, column in zip(words, columns.split(), strict=True))
    return re.compile("".join(options))


_PATTERNS = tuple((kind, _pattern(columns)) for kind, columns in _TABLES)
_NAMES = frozenset(" ".join(columns for _, columns in _TABLES).replace("[", "").replace("]", "").split())
_FIRST = re.compile(r"(?:\S+\s+\|)?[\s>#|]*(?=(?:GROUP|TOPIC|CONSUMER-ID|COORDINATOR),? )")
_MAY_BE_EMPTY = frozenset({"GROUP-INSTANCE-ID", "CLIENT-ID", "PROTOCOL"})
_SHORTEST = 3  # characters of the shortest name of a column, LAG
# A cell with wider gaps than an id has: two lines were joined.
_GAP = re.compile(r"\s{2}")


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a table.

    Parameters
    ----------
    kind : str
        ``OFFSETS``, ``MEMBERS``, ``STATES``, ``LIST``; one of ``NOT_CONSUMERS``, or ``OTHER``, is not read.
    names : tuple of str
        Names of the columns.
    starts : tuple of int
        Position of the first character of each column.
    is_padded : bool
        Whether blanks follow the last name: then they also follow each complete value of ``#PARTITIONS``.
    """

    kind: str
    names: tuple[str, ...]
    starts: tuple[int, ...]
    is_padded: bool = False

    @property
    def has_group(self) -> bool:
        """Whether the table names the group: releases before 2.4 mostly do not."""
        return self.names[0] == GROUP

    def cells(self, line: str) -> dict[str, str] | str:
        """The cells of a line by column, or the reason why they can't be read."""
        found = self._aligned(line)
        if found is None:
            indented = " " * self.starts[0] + line.lstrip(" \t>#|")
            found = self._aligned(indented) or self._shifted(indented)
        if found is None:
            return "its values are not below their columns: the line is cut off, damaged or below another header"
        return dict(zip(self.names, found, strict=True))

    def _aligned(self, line: str) -> list[str] | None:
        """The cells if each begins below its column's name."""
        cells = []
        last, length = len(self.starts) - 1, len(line)
        if line[: self.starts[0]].strip(" \t>#|") and not line[self.starts[0] - 1].isspace():
            return None
        for i, start in enumerate(self.starts):
            end = length if i == last else self.starts[i + 1]
            cell = line[start:end]
            if cell and not cell[0].isspace():
                if i < last and not cell[-1].isspace():
                    return None
                cells.append(cell.rstrip())
            elif self.names[i] in _MAY_BE_EMPTY and not cell.strip() and length >= start:
                cells.append("")
            else:
                return None
        return None if last and _GAP.search(cells[last]) else cells

    def _shifted(self, line: str) -> list[str] | None:
        """The cells of a line in which one is longer than its column, if none contains a blank.

        Each cell must begin exactly where the tool's padding puts it: then no other reading exists.
        """
        tokens = list(re.finditer(r"\S+", line))
        if len(tokens) != len(self.starts):
            return None
        shift = 0
        for i, token in enumerate(tokens):
            if token.start() != self.starts[i] + shift:
                return None
            if i + 1 < len(tokens):
                width = self.starts[i + 1] - self.starts[i] - 1
                shift += max(0, len(token[0]) - width)
        return [token[0] for token in tokens]


def read_header(line: str) -> Header | None:
    """The header in a line, of kind ``OTHER`` if it is cut off or another tool's; None if the line is no header."""
    first = _FIRST.match(line + " ")
    if first is None:
        return None
    columns = list(_COLUMN.finditer(line, first.end()))
    names = tuple(column[0] for column in columns)
    starts = tuple(column.start() for column in columns)
    written = "".join(name.replace(" ", "_") + " " for name in names)
    kind = next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(written)), None)
    if kind is not None:
        return Header(kind, names, starts, is_padded=line[-1].isspace() and names[-1] == "#PARTITIONS")
    # A group may be named like a column; a header has no other words than columns.
    is_header = names[0] != "TOPIC" and len(names) > 1 and _is_column(names[1])
    return Header(OTHER, names, starts) if is_header or names[:2] == ("TOPIC", "PARTITION") else None


def _is_column(name: str) -> bool:
    """Whether the text is the name of a column or its beginning; MEMBER is a column of streams groups."""
    # Kafka 0.9 prints commas.
    written = name.replace(" ", "_").rstrip(",")
    return name == "MEMBER" or (len(written) >= _SHORTEST and any(column.startswith(written) for column in _NAMES))
