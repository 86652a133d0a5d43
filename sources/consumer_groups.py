"""``kafka-consumer-groups.sh``: groups, their offsets and their members.

``--describe`` prints a table per group: offsets, ``--members`` or ``--state``, each with or without ``--verbose``; also
``--list --state``. ``kafka-groups.sh --list`` prints all groups with their types. Only ``--state`` names the assignor.
If a text has several tables of one kind for a group, as a loop appends them, the last table counts.

References
----------
``org.apache.kafka.tools.consumer.group.ConsumerGroupCommand`` (3.8 to 4.3), ``kafka.admin.ConsumerGroupCommand`` (0.9
to 3.7); KIP-379 (the column GROUP, 2.4), KIP-1099 (epochs, 4.0), KAFKA-9479 (one header of ``--state``).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sources.consumer_columns import GROUP, LIST, NOT_CONSUMERS, OTHER, Header, read_header
from sources.consumer_notices import EXPECTED, LEFT_OUT, is_cut_notice, is_failure, is_notice, read_notice
from sources.consumer_tables import read_row
from sources.record import Record, malformed
from sources.text import ELISION, lines_of
from sources.tool_errors import is_error

REMEDY = "supply the complete, unchanged output of kafka-consumer-groups.sh"

# Words of the headers and of the lines around the tables; each format has one of them.
_WORDS = ("CONSUMER-ID", "COORDINATOR (ID)", "onsumer group '", "onsumer group `", "LOG-END-OFFSET", "LOG END OFFSET")
# Headers without these words: lists, resets, cut off headers.
_SHORT_HEADER = re.compile(r"^[ \t>#]*GROUP,? +(?:TYPE|STATE|TOPIC|CONSUMER|COORD|MEMBER|TARGET)", re.MULTILINE)
_NAME = re.compile(r"consumer-groups-(?P<group>.+?)(?:\.(?:txt|out|log))?")
# Below a table: a prompt, a fence, a bracket, a label, an arrow, a line of a trace.
_FOREIGN = re.compile(
    r"[\s>#]*(?:[$%#] |```|~~~|[\[{}\]<|]|\S{1,200}[@:]\S{0,200}[$#%] |at \S+\()|.*(?::\s|:$|->|\")",
    re.DOTALL,
)
_LOG = re.compile(r"[\s>#]*\[?\d{4}-\d\d-\d\d[ T]\d\d:")
# Below a blank line, only such a line can be a row: a host, a missing host, or a coordinator with its id.
_ROW_LIKE = re.compile(r".*\s(?:/[0-9A-Za-z.:%_-]+|-|\S*:-?\d+\s+\(-?\d+\))(?:\s|$)", re.DOTALL)
# A row without any header above: offsets, members, a state.
_ORPHAN = re.compile(
    r"\S.* [0-9]+(?: +(?:-|[0-9]+)){3} +\S.* (?:/\S+|-) +\S|\S.* /[0-9A-Za-z.:%_-]+ +\S.* [0-9]+\s*$"
    r"|\S.* \S*:[0-9]+ +\([0-9]+\) .*[A-Z][A-Za-z]+ .*[0-9]"
)
_Table = tuple[str | None, str]  # group and kind of a table
_LONGEST_ORPHAN = 1_000  # characters; longer lines would take the expression too long
# Columns at the end of a line without padding: if the text ends there, the value may be cut off.
_UNPADDED = frozenset({"#PARTITIONS", "#MEMBERS", "ASSIGNMENT", "UPGRADED", "STATE", "TYPE", "CONSUMER-ID", "OWNER"})


def recognises(text: str) -> bool:
    """Whether the text has a header of the tool, or a line that it prints about a group."""
    return any(word in text for word in _WORDS) or ("GROUP" in text and _SHORT_HEADER.search(text) is not None)


def has_header(text: str) -> bool:
    """Whether the text has a complete header: a table without rows is a valid output."""
    headers = map(read_header, lines_of(text)) if recognises(text) else ()
    return any(header is not None and header.kind != OTHER for header in headers)


def parse(text: str, *, name: str = "") -> Iterator[Record]:
    """Yield the groups, offsets and members of all tables.

    Parameters
    ----------
    text : str
        One or more outputs of the tool.
    name : str
        Path of the file: ``consumer-groups-NAME.txt`` names the group of a table without a column GROUP.
    """
    if not recognises(text):
        return
    lines = lines_of(text)
    records = list(_Reader(lines, _group_of(name)).records())
    yield from _without_repeats(records)


def _group_of(name: str) -> str | None:
    match = _NAME.fullmatch(re.split(r"[/\\]", name)[-1])
    return match["group"] if match else None


def _without_repeats(records: Sequence[Record]) -> Iterator[Record]:
    """Leave out states in words and in lists if a table of ``--state`` has the group; else the last of them counts."""
    described: set[str] = set()
    for record in sorted(records, key=lambda record: (_rank(record), -record.line)):
        if record.kind == "consumer_group":
            if _rank(record) and record.payload["group"] in described:
                continue
            described.add(record.payload["group"])
        yield record


def _rank(record: Record) -> int:
    """0 for a row of ``--state``; the higher, the less the record says about its group."""
    payload = record.payload
    if record.kind != "consumer_group" or payload["coordinator_id"] is not None:
        return 0
    return 1 if payload["protocol"] is not None else 2


@dataclass
class _Reader:
    """Reads the lines in order; ``header``, of line ``header_line``, is the table that the next line may belong to.

    ``table_of`` has the table and its header's line for each row, ``newest`` the last header's line for each table.

    Parameters
    ----------
    lines : sequence of str
        Lines of the text.
    group : str or None
        The group that the file's name gives.
    """

    lines: Sequence[str]
    group: str | None
    header: Header | None = None
    is_gap: bool = False
    header_line: int = 0
    table_of: dict[int, tuple[_Table, int]] = field(default_factory=dict)
    newest: dict[_Table, int] = field(default_factory=dict)

    def records(self) -> list[Record]:
        """The records of the text, without rows of older tables."""
        records = list(self._all_records())
        return [record for record in records if not self._is_older(record)]

    def _is_older(self, record: Record) -> bool:
        """Whether the record is a row of a table, and a later table of this kind has the group."""
        table, header_line = self.table_of.get(record.line, (None, 0))
        return record.kind != "malformed" and table is not None and header_line < self.newest[table]

    def _all_records(self) -> Iterator[Record]:
        headers = [read_header(line) for line in self.lines]
        # The name of a file names one group only.
        unnamed = Counter(h.kind for h in headers if h is not None and h.kind != OTHER and not h.has_group)
        for number, (line, header) in enumerate(zip(self.lines, headers, strict=True), 1):
            if not line.strip():
                self.is_gap = True
            elif header is not None:
                self.is_gap = False
                self.header, self.header_line = header, number
                fault = _fault_of(header, self.group, unnamed[header.kind])
                if fault is not None:
                    yield self._malformed(number, *fault)
                    self.header = Header(OTHER, header.names, header.starts)
            elif is_notice(line) or is_cut_notice(line):
                self.is_gap = True
                yield read_notice(number, line)
            elif self.header is not None:
                yield from self._row(number, line)
            elif len(line) <= _LONGEST_ORPHAN and _ORPHAN.match(line):
                yield self._malformed(number, "no header above this line names its columns", REMEDY)

    def _row(self, number: int, line: str) -> Iterator[Record]:
        assert self.header is not None
        if self.header.kind == OTHER:
            if self.is_gap or _FOREIGN.match(line):
                self.header = None
            return
        row = read_row(self.header, number, line, self.group)
        if isinstance(row, str):
            if ELISION.match(line):
                row = "lines are left out here"
            elif _LOG.match(line) or is_error(line) or is_failure(line):
                # Log lines and traces are printed to another stream, so the table may go on below.
                self.is_gap = True
                return
            elif _FOREIGN.match(line) or (self.is_gap and not _ROW_LIKE.match(line)):
                self.header = None
                return
        elif self.header.is_padded and not line[-1].isspace():
            row = "no blanks follow the last value, as in the header: it may be cut off"
        elif self._ends_inside(number, line):
            reason = "the text ends in this line, without a line break: its last value may be cut off"
            yield self._malformed(number, reason, f"append a line break if the line is complete; else {REMEDY}")
            return
        self.is_gap = False
        if not isinstance(row, str):
            self._note_table(number, line, row)
        if isinstance(row, Record):
            yield _without_client(row) if number == len(self.lines) else row
        elif row is not None:
            yield self._malformed(number, row, REMEDY)

    def _note_table(self, number: int, line: str, row: Record | None) -> None:
        """Keep the table of a row. A line that gives no record still belongs to its table."""
        assert self.header is not None
        if row is None:
            cells = self.header.cells(line)
            assert not isinstance(cells, str)
            group = cells.get(GROUP, self.group)
        else:
            group = row.payload["group"]
        table = (group, self.header.kind)
        self.newest[table] = self.header_line
        self.table_of[number] = (table, self.header_line)

    def _ends_inside(self, number: int, line: str) -> bool:
        """Whether the text ends directly behind a value of the line that a record would have."""
        is_last = number == len(self.lines) and not line[-1].isspace()
        return is_last and self.header is not None and self.header.names[-1] in _UNPADDED

    def _malformed(self, number: int, reason: str, remedy: str) -> Record:
        text = self.lines[number - 1]
        return malformed(line=number, expected=EXPECTED, reason=reason, remedy=remedy, text=text, **LEFT_OUT)


def _without_client(row: Record) -> Record:
    """An offset without the client id, which ends its line and may be cut off there: 3.9 ends without a line break."""
    is_offset = row.kind == "consumer_offset"
    return replace(row, payload={**row.payload, "client_id": None}) if is_offset else row


def _fault_of(header: Header, group: str | None, tables: int) -> tuple[str, str] | None:
    """Why the table can't be read, and what to do; None if it can."""
    if "NEW-OFFSET" in header.names:
        return (
            "the offsets are those of --reset-offsets: a plan, not the state of the group",
            "supply the output of kafka-consumer-groups.sh --describe",
        )
    if "GROUP," in header.names or "TOPIC," in header.names:
        return "Kafka 0.9 printed this table, without columns", "run kafka-consumer-groups.sh of Kafka 2.4 or newer"
    if header.kind in NOT_CONSUMERS:
        return f"this table is about {header.kind} groups, which are not read", "nothing to do: a plan does not need it"
    if header.kind == OTHER:
        return "the header is cut off, damaged or of another tool", REMEDY
    if header.has_group or header.kind == LIST:
        return None
    if group is None:
        reason = "the table has no column GROUP (Kafka before 2.4), and the file's name does not give the group"
        return reason, "name the file consumer-groups-NAME.txt, where NAME is the group, or run a newer tool"
    if tables > 1:
        reason = "several tables have no column GROUP (Kafka before 2.4), but the file's name gives only one group"
        return reason, "write the output of each group to its own file, consumer-groups-NAME.txt"
    return None
