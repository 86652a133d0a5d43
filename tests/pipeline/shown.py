"""Compares what a report and ``moves.csv`` of a cluster show with the rows of its tables."""

import csv
import html
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.units import human_bytes
from stored.tables import Warehouse

Row = Mapping[str, Any]
Cells = list[str]
_TABLE = re.compile(r'<table[^>]*aria-label="([^"]*)"[^>]*>(.*?)</table>', re.DOTALL)
_ROW, _CELL = re.compile(r"<tr.*?</tr>", re.DOTALL), re.compile(r"<t[hd][ >].*?</t[hd]>", re.DOTALL)


@dataclass(frozen=True)
class Stored:
    """Rows of tables of one run and cluster."""

    warehouse: Warehouse
    run_id: str
    cluster_id: str

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table."""
        return self.warehouse.rows(table, run_id=self.run_id, cluster_id=self.cluster_id)


def shown(page: str) -> dict[str, list[Cells]]:
    """The texts of each table's cells by its name, row by row; the first row has the heads."""
    return {
        html.unescape(name): [
            [html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in _CELL.findall(row)]
            for row in _ROW.findall(body)
        ]
        for name, body in _TABLE.findall(page)
    }


def expected(stored: Stored) -> dict[str, list[Cells]]:
    """What the tables of the report must show, without drawings and times: rows of some of their columns."""
    return {
        "Brokers": sorted(_brokers(stored)),
        "Sums": [_sums(stored)],
        "Waves": [_wave(row) for row in sorted(stored.rows("waves"), key=lambda row: int(row["wave"]))],
        "Bytes between racks": list(_racks(stored.rows("rack_flow"))),
        "Reasons": sorted(_reasons(stored.rows("moves"))),
        "Topics": sorted(_topics(stored.rows("plan"))),
        "Copies": sorted(_copies(stored)),
    }


def found(page: str) -> dict[str, list[Cells]]:
    """The same of a report."""
    tables = {name: rows[1:] for name, rows in shown(page).items()}
    _, *brokers, sums = tables["Brokers"]  # first a second row of heads
    return {
        "Brokers": sorted([row[0].split()[0], row[1], *row[6:8], *row[10:12]] for row in brokers),
        "Sums": [[*sums[3:5], *sums[6:8]]],
        "Waves": [[row[2], row[3], *row[7:9]] for row in tables["Waves"]],
        "Bytes between racks": tables["Bytes between racks"],
        "Reasons": sorted([row[1], row[3]] for row in tables["Reasons"]),
        "Topics": sorted([row[0], row[1], row[3]] for row in tables["Topics"]),
        "Copies": sorted([row[0], *row[1:4], row[5]] for row in tables["Copies"]),
    }


def csv_rows(text: str) -> list[tuple[str, ...]]:
    """The rows of ``moves.csv`` without reasons, sorted."""
    return sorted(
        tuple(cell for name, cell in row.items() if name != "reason") for row in csv.DictReader(io.StringIO(text))
    )


def csv_expected(stored: Stored) -> list[tuple[str, ...]]:
    """The same of the tables ``moves`` and ``plan``."""
    plan = {(row["topic"], row["partition"]): row for row in stored.rows("plan")}
    names = ("topic", "partition", "from_broker", "to_broker", "size_bytes")
    result = []
    for move in stored.rows("moves"):
        row = plan[move["topic"], move["partition"]]
        values = (*(move[name] for name in names), row["leader"], row["wave"])
        result.append(tuple("" if value is None else str(value) for value in values))
    return sorted(result)


def _gigabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:,.{0 if size_bytes >= 1e10 or not size_bytes else 1}f}"


def _brokers(stored: Stored) -> Iterator[Cells]:
    received, sent = Counter[int](), Counter[int]()
    for row in stored.rows("broker_waves"):
        received[row["broker_id"]] += row["in_bytes"]
        sent[row["broker_id"]] += row["out_bytes"]
    sides = {(row["broker_id"], row["placement"]): row for row in stored.rows("broker_balance")}
    for row in stored.rows("brokers"):
        broker = row["broker_id"]
        leaders = (f"{sides[broker, side]['leaders']:,}" for side in ("before", "after"))
        yield [str(broker), row["rack"], _gigabytes(received[broker]), _gigabytes(sent[broker]), *leaders]


def _sums(stored: Stored) -> Cells:
    flows, balance = stored.rows("broker_waves"), stored.rows("broker_balance")
    sizes = (_gigabytes(sum(row[name] for row in flows)) for name in ("in_bytes", "out_bytes"))
    sides = (sum(row["leaders"] for row in balance if row["placement"] == side) for side in ("before", "after"))
    return [*sizes, *(f"{count:,}" for count in sides)]


def _wave(row: Row) -> Cells:
    sizes = human_bytes(row["moved_bytes"]), str(row["busiest_broker"]), _gigabytes(row["busiest_bytes"])
    return [f"{row['partitions']:,}", *sizes]


def _racks(rows: Iterable[Row]) -> Iterator[Cells]:
    sums = Counter[tuple[str, str]]()
    for row in rows:
        sums[row["from_rack"], row["to_rack"]] += row["copied_bytes"]
    racks = sorted({rack for pair in sums for rack in pair})
    for source in racks:
        yield [source, *(human_bytes(sums[source, target]) if sums[source, target] else "-" for target in racks)]


def _reasons(rows: Sequence[Row]) -> Iterator[Cells]:
    copies, sizes = Counter(row["reason"] for row in rows), Counter[str]()
    for row in rows:
        sizes[row["reason"]] += row["size_bytes"]
    for reason, count in copies.items():
        yield [f"{count:,}", human_bytes(sizes[reason])]


def _topics(rows: Iterable[Row]) -> Iterator[Cells]:
    """The topics that copy most, as many as a report shows."""
    partitions, sizes = Counter[str](), Counter[str]()
    for row in rows:
        if row["moved_bytes"]:
            partitions[row["topic"]] += 1
            sizes[row["topic"]] += row["moved_bytes"]
    for topic, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:12]:
        yield [topic, f"{partitions[topic]:,}", human_bytes(size)]


def _copies(stored: Stored) -> Iterator[Cells]:
    waves = {(row["topic"], row["partition"]): row["wave"] for row in stored.rows("plan")}
    for row in stored.rows("moves"):
        topic, partition = row["topic"], row["partition"]
        ends = (str(row["from_broker"]), str(row["to_broker"]))
        yield [f"{topic}-{partition}", _gigabytes(row["size_bytes"]), *ends, str(waves[topic, partition])]
