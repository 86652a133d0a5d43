"""The audit of waves inside brokers: the emitted documents of a sound plan pass, and each fault breaks its rule."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pandas as pd
import pytest

from benchmarks.rows import row as table_row
from optimizer.audit import (
    AuditBroker,
    AuditClaims,
    AuditFile,
    AuditPartition,
    AuditReport,
    Violation,
    audit_files,
    audit_plan,
)
from optimizer.domain import Cause
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.rows import BrokerRow, DirMoveRow, EarlierThrottleRow, ThrottleRow
from optimizer.emit.throttle_files import throttle_documents
from optimizer.kafka.throttle import LOG_DIR_RATE
from optimizer.settings import ClusterInput, Policy, Settings
from optimizer.stages.emit.audit_gate import audit_cluster
from tests.audit.plans import LIMITS, broker, draining, log_dir
from tests.emit.rows import rows_of
from tests.emit.throttled import CHANGES, RATE, throttled_plan

WAVES = (2, 3)  # inside brokers; wave 1 moves replicas between brokers
EARLIER = "50000"  # rate of moves inside broker 2 before the plan
# Wave, partition, broker, new directory; the other directory is the old one.
MOVES = ((2, 0, 1, "/b"), (2, 0, 2, "/b"), (3, 1, 3, "/b"), (3, 1, 1, "/b"), (3, 2, 2, "/a"), (3, 3, 4, "/b"))
REPLICAS = {0: (1, 2), 1: (3, 1), 2: (2, 4), 3: (4,)}
OLD_DIRS = {0: ("/a", "/a"), 1: ("/a", "/a"), 2: ("/b", "any"), 3: ("/a",)}
# Bytes in /a and /b. The limit is 900, so the directories of brokers 1 to 3 are full at some moment: /b of 1 in wave 3,
# /a of 2 in wave 3 after 100 bytes left in each wave before, /b of 3 in wave 3 after 200 arrived in wave 1.
USED = {1: (5000, 700), 2: (1000, 300), 3: (300, 600), 4: (300, 9000)}
Change = Callable[["Case"], object]


def _throttles() -> list[ThrottleRow]:
    """The rates of the waves inside brokers in both forms."""
    brokers = sorted({(wave, broker_id) for wave, _, broker_id, _ in MOVES})
    return [
        ThrottleRow(
            "brokers",
            str(broker_id),
            LOG_DIR_RATE,
            str(RATE),
            previous_value=EARLIER if broker_id == 2 else None,
            wave=wave,
            style=style,
        )
        for style in ("careful", "kafka")
        for wave, broker_id in brokers
    ]


def _plan() -> ClusterPlan:
    plan = throttled_plan()
    changed = [
        replace(
            change,
            log_dirs=["/a"] * 2,
            planned_log_dirs=["any" if b in change.current_replicas else "/b" for b in change.proposed_replicas],
        )
        for change in plan.changed
    ]
    moves = [
        {
            "topic": "in", "partition": number, "broker_id": host, "replicas": REPLICAS[number], "to_log_dir": path,
            "from_log_dir": "/a" if path == "/b" else "/b", "size_bytes": 100, "wave": wave,
        }
        for wave, number, host, path in MOVES
    ]  # fmt: skip
    waves = [replace(plan.waves[0], wave=wave, copy_bytes_per_s=RATE, inside_brokers=wave > 1) for wave in (1, *WAVES)]
    dirs = [{"path": path, "is_open": True} for path in ("/a", "/b")]
    return replace(
        plan,
        changed=changed,
        waves=waves,
        dir_moves=rows_of(DirMoveRow, *moves),
        throttles=[*plan.throttles, *_throttles()],
        throttles_found=[
            *plan.throttles_found,
            EarlierThrottleRow("brokers", "2", LOG_DIR_RATE, EARLIER, is_static=False),
        ],
        brokers=[
            BrokerRow(b, "a", "alive", accepts_replicas=True, must_empty=False, log_dirs=dirs) for b in (1, 2, 3, 4)
        ],
    )


def _partitions() -> list[AuditPartition]:
    common: dict[str, Any] = {"size_bytes": 100, "mobility": "free"}
    moved = [
        AuditPartition(
            topic=topic, partition=number, replicas=tuple(before), replication_factor=2, leader=before[0],
            log_dirs=("/a", "/a"), **common,
        )
        for (topic, number), (before, _) in CHANGES.items()
    ]  # fmt: skip
    inside = [
        AuditPartition(
            topic="in", partition=number, replicas=listed, replication_factor=len(listed), leader=listed[0],
            log_dirs=OLD_DIRS[number], **common,
        )
        for number, listed in REPLICAS.items()
    ]  # fmt: skip
    return [*moved, *inside]


PLAN = _plan()
FILES = {
    document.path: AuditFile(document.path, document.kind, document.wave, document.content)
    for document in (*kafka_documents(PLAN), *throttle_documents(PLAN))
}


@dataclass
class Case:
    """The sound plan; a test changes one part of it."""

    brokers: dict[int, AuditBroker] = field(
        default_factory=lambda: {
            b: broker(b, None, disk_capacity_bytes=None, log_dirs=(log_dir("/a", a), log_dir("/b", of_b, limit)))
            for (b, (a, of_b)), limit in zip(USED.items(), (1000, 1000, 1000, None), strict=True)
        }
    )
    partitions: dict[tuple[str, int], AuditPartition] = field(default_factory=lambda: {p.key: p for p in _partitions()})
    files: dict[str, AuditFile] = field(default_factory=lambda: dict(FILES))

    def violations(self) -> tuple[Violation, ...]:
        """What the audit finds in the documents."""
        return audit_files(
            brokers=[*self.brokers.values()],
            partitions=[*self.partitions.values()],
            limits=LIMITS,
            files=[*self.files.values()],
        )

    def rules(self) -> set[str]:
        """The rules that the documents break."""
        return {violation.rule for violation in self.violations()}


def forward(wave: int) -> str:
    """The path of a wave's moves."""
    return f"c/wave-{wave:02d}/dir-moves.json"


def back(wave: int) -> str:
    """The path of the document that takes a wave back."""
    return f"c/wave-{wave:02d}/rollback-dir-moves.json"


def text(path: str, change: Callable[[str], str]) -> Change:
    """Change the text of a document."""

    def apply(case: Case) -> None:
        after = change(case.files[path].content)
        assert after != case.files[path].content
        case.files[path] = replace(case.files[path], content=after)

    return apply


def swap(path: str, old: str, new: str) -> Change:
    """Replace a part of a document."""
    return text(path, lambda content: content.replace(old, new))


def content(path: str, change: Callable[[Any], object]) -> Change:
    """Change the parsed content of a JSON document in place."""

    def apply(before: str) -> str:
        parsed = json.loads(before)
        change(parsed)
        return json.dumps(parsed)

    return text(path, apply)


def entry(number: int, **values: Any) -> Callable[[Any], object]:
    """A change of the entry of partition ``in-number``; adds it if the document lacks it."""

    def apply(parsed: Any) -> None:
        rows = parsed["partitions"]
        [row] = [row for row in rows if row["topic"] == "in" and row["partition"] == number] or [{}]
        if not row:
            rows.append(row | {"topic": "in", "partition": number, "replicas": REPLICAS.get(number, (1, 2))} | values)
        row.update(values)

    return apply


def each(*changes: Change) -> Change:
    """All of the changes."""
    return lambda case: [change(case) for change in changes]


def both(wave: int, change: Callable[[Any], object], of_back: Callable[[Any], object] | None = None) -> Change:
    """Change both documents of a wave."""
    return each(content(forward(wave), change), content(back(wave), of_back or change))


def host(broker_id: int, **values: Any) -> Change:
    """Change a broker."""
    return lambda case: case.brokers.update({broker_id: replace(case.brokers[broker_id], **values)})


def used(broker_id: int, a: int, b: int) -> Change:
    """Change the bytes in both directories of a broker."""
    return host(broker_id, log_dirs=(log_dir("/a", a), log_dir("/b", b)))


def known(number: int, **values: Any) -> Change:
    """Change partition ``in-number`` of the cluster."""
    return lambda case: case.partitions.update({("in", number): replace(case.partitions["in", number], **values)})


def renamed(path: str, new: str, **values: Any) -> Change:
    """Give a document another path, and other values."""
    return lambda case: case.files.update({new: replace(case.files.pop(path), path=new, **values)})


def lost(*paths: str) -> Change:
    """Remove documents."""
    return lambda case: [case.files.pop(path) for path in paths]


def in_wave(wave: int, new: int) -> Change:
    """Give all documents of a wave another number and folder."""

    def apply(case: Case) -> None:
        folder = f"c/wave-{wave:02d}/"
        for path in [path for path in case.files if path.startswith(folder)]:
            renamed(path, path.replace(folder, f"c/wave-{new:02d}/"), wave=new)(case)

    return apply


def move_to_wave_2(case: Case) -> None:
    """Move partition in-2 in wave 2 instead of wave 3."""
    for path in (forward, back):
        rows = {wave: json.loads(case.files[path(wave)].content) for wave in WAVES}
        [row] = [row for row in rows[3]["partitions"] if row["partition"] == 2]
        rows[3]["partitions"].remove(row)
        rows[2]["partitions"].append(row)
        for wave in WAVES:
            case.files[path(wave)] = replace(case.files[path(wave)], content=json.dumps(rows[wave]))


def throttle(style: str, change: Callable[[Any], object], *names: str) -> Change:
    """Change the entries of one form in the throttles of wave 2 and its rollback."""
    paths = names or ("throttle.json", "rollback-throttle.json")
    return each(*(content(f"c/wave-02/{name}", lambda parsed: change(parsed[style])) for name in paths))


def rates(value: object) -> Change:
    """Set another rate for copies in the data of wave 2 and its rollback."""
    change: Callable[[Any], object] = lambda parsed: parsed.update(copy_bytes_per_s=value)  # noqa: E731
    return each(*(content(f"c/wave-02/{name}", change) for name in ("throttle.json", "rollback-throttle.json")))


def set_more(style: str, row: dict[str, Any]) -> Change:
    """Add an entry to the data of wave 2, its rollback and both scripts of a form."""
    name, config = row["entity_name"], row["config"]
    line = f"configs brokers '{name}' --add-config '{config}={RATE}'"
    return each(
        throttle(style, lambda rows: rows.append(row)),
        swap(f"{W2}throttle-{style}.sh", RATE_LINE, f"{RATE_LINE}\n{line}"),
        swap(f"{W2}unthrottle-{style}.sh", "<<'END'\n", f"<<'END'\nbrokers {name} {config} {RATE} -\n"),
    )


OTHER_CONFIG = {
    "entity_type": "brokers", "entity_name": "1", "config": "leader.replication.throttled.rate", "value": str(RATE),
    "previous_value": None,
}  # fmt: skip
OTHER_BROKER = OTHER_CONFIG | {"entity_name": "4", "config": LOG_DIR_RATE}
ANY = {"log_dirs": ["any", "any"]}
OPEN, CLOSED = log_dir("/a", 300), log_dir("/c", is_open=False)
W2, DATA, ROLLBACK_DATA = "c/wave-02/", "c/wave-02/throttle.json", "c/wave-02/rollback-throttle.json"
W3_THROTTLES = [path for path, file in FILES.items() if file.kind == "throttle" and file.wave == 3]
SCRIPTS = [path for path, file in FILES.items() if path.startswith(W2) and path.endswith(".sh")]
CAREFUL, UNDO = "c/wave-02/throttle-careful.sh", "c/wave-02/unthrottle-kafka.sh"
RATE_LINE = f"configs brokers '1' --add-config '{LOG_DIR_RATE}={RATE}'"

BROKEN: list[tuple[str, Change, set[str]]] = [
    # the documents
    ("no JSON", text(forward(3), lambda _: "{"), {"document"}),
    ("rollback no JSON", text(back(3), lambda _: "{"), {"document"}),
    ("no entries", text(forward(3), lambda _: '{"version": 1, "partitions": []}'), {"document"}),
    ("partition twice", content(forward(3), lambda c: c["partitions"].append(c["partitions"][0])), {"document"}),
    ("no rollback", lost(back(3)), {"dir_moves"}),
    ("rollback alone", lost(forward(3)), {"dir_moves"}),
    ("other name", renamed(forward(3), "c/wave-03/moves.json"), {"dir_moves"}),
    ("name of the rollback", each(lost(back(3)), renamed(forward(3), back(3))), {"dir_moves"}),
    ("folder of another wave", renamed(forward(3), "c/wave-04/dir-moves.json"), {"dir_moves"}),
    ("number of another wave", renamed(forward(3), forward(3), wave=4), {"dir_moves"}),
    ("folder with other digits", renamed(forward(3), "c/wave-3/dir-moves.json"), {"dir_moves"}),
    ("folder of another cluster", renamed(forward(3), "d/wave-03/dir-moves.json"), {"dir_moves"}),
    ("of the whole plan", each(
        renamed(forward(3), "c/dir-moves.json", wave=0), renamed(back(3), "c/rollback-dir-moves.json", wave=0),
    ), {"dir_moves"}),
    ("wave 0", in_wave(3, 0), {"dir_moves"}),
    ("twice", lambda case: case.files.update(again=case.files[forward(2)]), {"dir_moves"}),
    # waves and partitions
    ("before a reassignment", in_wave(1, 4), {"dir_move_order"}),
    ("in the wave of a reassignment", in_wave(2, 1),
     {"dir_move_order", "throttle_lists", "throttle_rates"}),
    ("in two waves", both(3, entry(0, log_dirs=["any", "/b"]), entry(0, log_dirs=["any", "/a"])), {"dir_move_twice"}),
    ("in a reassignment too", both(
        3, entry(99, topic="stays", partition=1, replicas=[2, 1], log_dirs=["/b", "any"]),
        entry(99, topic="stays", partition=1, replicas=[2, 1], log_dirs=["/a", "any"]),
    ), {"dir_move_reassigned"}),
    ("unknown partition", both(2, entry(9, log_dirs=["/b", "any"]), entry(9, **ANY)), {"known_partition"}),
    ("other brokers", each(both(2, entry(7, replicas=[1, 3], **ANY)), lambda case: case.partitions.update(
        {("in", 7): replace(case.partitions["in", 0], partition=7)})), {"dir_move_replicas", "dir_move_needless"}),
    ("other order", both(3, entry(1, replicas=[1, 3])), {"dir_move_replicas", "dir_move_rollback", "throttle_extra"}),
    ("names no directory", both(3, entry(1, **ANY)), {"dir_move_needless", "throttle_extra"}),
    ("excluded", known(0, mobility="forced_only", fixed_cause="topic_excluded"), {"dir_move_fixed"}),
    ("in flight", known(0, mobility="fixed", fixed_cause="in_flight"), {"dir_move_fixed"}),
    ("fixed, cause unknown", known(0, mobility="fixed"), {"dir_move_fixed"}),
    ("only drains", known(0, mobility="forced_only", fixed_cause="only"), {"dir_move_fixed"}),
    ("only racks", known(0, mobility="racks_only", fixed_cause="only"), {"dir_move_fixed"}),
    ("dead", host(3, state="dead"), {"living_broker", "throttle_data"}),
    ("another replica on a fenced broker", each(
        known(3, replicas=(4, 9), log_dirs=("/a", "any"), replication_factor=2),
        both(3, entry(3, replicas=[4, 9], log_dirs=["/b", "any"]), entry(3, replicas=[4, 9], log_dirs=["/a", "any"])),
        lambda case: case.brokers.update({9: broker(9, None, state="fenced")}),
    ), {"living_broker"}),
    # directories
    ("to empty", lambda case: case.brokers.update(
        {3: draining(3, None, log_dirs=case.brokers[3].log_dirs)}), {"dir_move_broker"}),
    ("no such directory", content(forward(3), entry(3, log_dirs=["/x"])), {"dir_move_target"}),
    ("one directory", host(4, log_dirs=(log_dir("/a", 300),)), {"dir_move_target", "known_log_dir"}),
    ("where it is", both(3, entry(3, log_dirs=["/a"])), {"dir_move_needless"}),
    ("old directory unknown", each(known(3, log_dirs=("any",)), content(back(3), entry(3, log_dirs=["any"]))),
     {"dir_move_source"}),
    ("old directories unknown", each(known(3, log_dirs=()), content(back(3), entry(3, log_dirs=["any"]))),
     {"dir_move_source"}),
    ("old directory not of the broker", each(known(3, log_dirs=("/x",)), content(back(3), entry(3, log_dirs=["/x"]))),
     {"dir_move_source"}),
    ("target closed", host(4, log_dirs=(OPEN, log_dir("/b", is_open=False))), {"dir_move_open", "open_log_dir"}),
    ("source closed", host(4, log_dirs=(log_dir("/a", 300, is_open=False), log_dir("/b"))), {"dir_move_open"}),
    ("third directory closed", host(4, log_dirs=(OPEN, log_dir("/b"), CLOSED)), {"dir_move_open"}),
    # space
    ("full in wave 2", used(1, 5000, 801), {"dir_move_capacity"}),
    ("full after wave 2", used(1, 5000, 701), {"dir_move_capacity"}),
    ("full after what left", used(2, 1001, 300), {"dir_move_capacity"}),
    ("full after what arrived", used(3, 300, 601), {"dir_move_capacity"}),
    ("over its limit before", used(4, 300, 9000), {"dir_move_capacity", "log_dir_capacity"}),
    ("the source keeps its bytes", move_to_wave_2, {"dir_move_capacity", "throttle_extra"}),
    # the rollback
    ("rollback lacks a partition", content(back(3), lambda c: c["partitions"].pop()), {"dir_move_rollback"}),
    ("rollback lacks a replica", content(back(3), entry(1, log_dirs=["/a", "any"])), {"dir_move_rollback"}),
    ("rollback to the new directory", content(back(3), entry(3, log_dirs=["/b"])), {"dir_move_rollback"}),
    ("rollback of another replica", content(back(3), entry(2, log_dirs=["/b", "/a"])), {"dir_move_rollback"}),
    ("rollback of another partition", content(back(3), entry(0, log_dirs=["/a", "any"])), {"dir_move_rollback"}),
    ("rollback in other order", content(back(2), entry(0, replicas=[2, 1])), {"dir_move_rollback"}),
    # throttles
    ("no throttles", lost(*W3_THROTTLES), {"throttle_missing"}),
    ("no throttles, some bytes", each(lost(*W3_THROTTLES), known(1, size_bytes=0)), {"throttle_missing"}),
    ("only the rollback's throttles", lost(*(path for path in W3_THROTTLES if "rollback" not in path)),
     {"throttle_missing", "throttle_extra"}),
    ("no data", lost(DATA, ROLLBACK_DATA), {"throttle_missing"}),
    ("no script", lost(UNDO), {"throttle_missing"}),
    ("no throttles of the rollback", lost(ROLLBACK_DATA), {"throttle_missing"}),
    ("data unreadable", each(text(DATA, lambda _: "{"), text(ROLLBACK_DATA, lambda _: "{")),
     {"throttle_data", "unthrottle"}),
    ("rollback's data unreadable", text(ROLLBACK_DATA, lambda _: "{"), {"throttle_data"}),
    ("rollback at another rate", content(ROLLBACK_DATA, lambda c: c.update(copy_bytes_per_s=1)), {"throttle_data"}),
    ("rollback with another entry", throttle("kafka", list.pop, "rollback-throttle.json"), {"throttle_data"}),
    ("no rate of copies", rates(None), {"throttle_data"}),
    ("rate of copies 0", each(rates(0), swap(DATA, f'"{RATE}"', '"0"'), swap(ROLLBACK_DATA, f'"{RATE}"', '"0"'),
     *(swap(path, str(RATE), "0") for path in SCRIPTS)), {"throttle_data"}),
    ("rate of copies a boolean", rates(True), {"throttle_data"}),
    ("another rate of copies", rates(RATE + 1), {"throttle_rates"}),
    *((f"a broker without a rate, form {style}", each(
        throttle(style, lambda rows: rows.pop(0)), swap(f"{W2}throttle-{style}.sh", RATE_LINE, ""),
    ), {"throttle_rates"}) for style in ("careful", "kafka")),
    *((f"another {noun}, form {style}", set_more(style, row), {"throttle_extra"}) for style in ("careful", "kafka")
      for noun, row in (("config", OTHER_CONFIG), ("broker", OTHER_BROKER))),
    ("script without a rate", swap(CAREFUL, RATE_LINE, ""), {"throttle_data"}),
    ("script with another rate", swap(CAREFUL, f"={RATE}", f"={RATE}0"), {"throttle_data"}),
    ("never removed", swap(UNDO, f"brokers 1 {LOG_DIR_RATE}", "brokers 1 x"), {"unthrottle"}),
    ("earlier rate not restored", swap(UNDO, f" {EARLIER}\n", " -\n"), {"unthrottle"}),
]  # fmt: skip


def test_the_emitted_documents_pass() -> None:
    """Two waves inside brokers after one between brokers, with full directories and a rate from before, are sound."""
    assert {file.wave for file in FILES.values() if file.kind in ("dir_moves", "rollback_dir_moves")} == set(WAVES)
    assert Case().rules() == set()


@pytest.mark.parametrize(("change", "rules"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_fault_breaks_its_rule(change: Change, rules: set[str]) -> None:
    """The sound plan with one change breaks exactly these rules."""
    case = Case()
    change(case)
    assert case.rules() == rules


def backwards(case: Case) -> None:
    """Reverse the order of the documents."""
    case.files = dict(reversed(case.files.items()))


MESSAGES: list[tuple[str, Change, list[str]]] = [
    ("no rollbacks", each(lost(back(2), back(3)), backwards), [
        "wave 2: it lacks rollback-dir-moves.json", "wave 3: it lacks rollback-dir-moves.json",
    ]),
    ("in flight", known(3, mobility="fixed", fixed_cause="in_flight"), [
        "in-3: c/wave-03/dir-moves.json: it is fixed (in_flight) and must not move",
    ]),
    ("cause unknown", known(3, mobility="fixed"), [
        "in-3: c/wave-03/dir-moves.json: it is fixed (no cause is known) and must not move",
    ]),
    ("directory unknown", each(known(3, log_dirs=()), content(back(3), entry(3, log_dirs=["any"]))), [
        "in-3: c/wave-03/dir-moves.json: its directory on broker 4 is unknown",
    ]),
    ("directory not of the broker", each(known(3, log_dirs=("/x",)), content(back(3), entry(3, log_dirs=["/x"]))), [
        "in-3: c/wave-03/dir-moves.json: its directory on broker 4 is /x, which the broker does not have",
    ]),
    ("closed", host(4, log_dirs=(OPEN, log_dir("/b"), log_dir("/d", is_open=False), CLOSED)), [
        "in-3: c/wave-03/dir-moves.json: broker 4 has directories that have failed or are cordoned: ['/c', '/d']",
    ]),
    ("full", each(used(3, 300, 601), used(1, 5000, 701)), [
        f"/b of broker {b}: c/wave-03/dir-moves.json: 901 bytes during the wave, 900 allowed" for b in (1, 3)
    ]),
    ("rollback of one", content(back(3), lambda c: c.update(partitions=c["partitions"][:1])), [
        f"{name}: c/wave-03/rollback-dir-moves.json: it has nothing, expected {expected}"
        for name, expected in (("in-2", "((2, 4), ('/b', 'any'))"), ("in-3", "((4,), ('/a',))"))
    ]),
    ("another rate", rates(5), [
        f"broker {b}: c/wave-02/throttle.json, form {style}: {LOG_DIR_RATE} is {RATE}, expected 5"
        for style in ("careful", "kafka") for b in (1, 2)
    ]),
    ("rates of others", each(set_more("kafka", OTHER_BROKER), set_more("kafka", OTHER_CONFIG)), [
        "c/wave-02/throttle.json: form kafka: brokers 1 needs no leader.replication.throttled.rate",
        f"c/wave-02/throttle.json: form kafka: brokers 4 needs no {LOG_DIR_RATE}",
    ]),
    ("rollback not throttled", lost(ROLLBACK_DATA), ["c/wave-02: it lacks rollback-throttle.json"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "messages"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES])
def test_violations_say_what_is_wrong(change: Change, messages: list[str]) -> None:
    """Messages with subject and detail, in the order of waves and names."""
    case = Case()
    change(case)
    assert [f"{violation.subject}: {violation.detail}" for violation in case.violations()] == messages


def many_waves(case: Case) -> None:
    """Renumber wave 3 to 100, so that folders have three digits."""
    for path in [*case.files]:
        for wave, new in ((1, 1), (2, 2), (3, 100)):
            if path.startswith(f"c/wave-{wave:02d}/"):
                renamed(path, path.replace(f"-{wave:02d}/", f"-{new:03d}/"), wave=new)(case)


def empty_partitions(case: Case) -> None:
    """The partitions that move in wave 3 have no bytes."""
    for number in (1, 2, 3):
        known(number, size_bytes=0)(case)


SOUND: list[tuple[str, Change]] = [
    ("only directories", each(*(known(number, mobility="fixed", fixed_cause=Cause.ONLY.value) for number in REPLICAS))),
    ("100 waves", many_waves),
    ("1 byte per second", each(*(swap(path, str(RATE), "1") for path in (DATA, ROLLBACK_DATA, *SCRIPTS)))),
    ("no bytes, throttles", empty_partitions),
    ("no bytes, no throttles", each(empty_partitions, lost(*W3_THROTTLES))),
    ("no reassignments", lambda case: [
        case.files.pop(path) for path, file in FILES.items() if file.wave == 1 or file.wave == 0
    ] and used(2, 900, 300)(case)),
    ("another cluster's folder", lambda case: [
        renamed(path, path.replace("c/", "some/other/"))(case) for path in [*case.files]
    ]),
]  # fmt: skip


@pytest.mark.parametrize("change", [case[1] for case in SOUND], ids=[case[0] for case in SOUND])
def test_a_sound_plan_passes(change: Change) -> None:
    """Variants of the plan that break no rule."""
    case = Case()
    change(case)
    assert case.rules() == set()


def test_some_throttles_of_a_wave_without_bytes_are_too_few() -> None:
    """A wave that copies nothing needs no throttles. If it has some, none may be missing."""
    case = Case()
    empty_partitions(case)
    case.files.pop(W3_THROTTLES[-1])
    assert case.rules() == {"throttle_missing"}


@pytest.mark.parametrize("kind", ["dir_moves", "rollback_dir_moves"])
@pytest.mark.parametrize(("count", "is_broken"), [(10_000, False), (10_001, True)])
def test_a_document_over_one_request_is_caught(kind: str, count: int, is_broken: bool) -> None:
    """The documents of a wave name at most 10,000 partitions."""
    case = Case()
    rows = [{"topic": "t", "partition": p, "replicas": [1], "log_dirs": ["/b"]} for p in range(count)]
    path = forward(3) if kind == "dir_moves" else back(3)
    case.files[path] = replace(case.files[path], content=json.dumps({"version": 1, "partitions": rows}))
    assert ("request_size" in case.rules()) is is_broken


def report(claims: AuditClaims | None = None, texts: Sequence[str] | None = None) -> AuditReport:
    """The verdict about the reassignments of the sound plan, with its waves inside brokers."""
    case = Case()
    known(0, size_bytes=1000)(case)
    whole = FILES["c/reassignment.json"].content
    return audit_plan(
        brokers=[*case.brokers.values()],
        partitions=[*case.partitions.values()],
        waves=[FILES["c/wave-01/reassignment.json"].content],
        whole=whole,
        rollback=FILES["c/rollback.json"].content,
        limits=LIMITS,
        claims=claims,
        **({} if texts is None else {"dir_moves": texts}),
    )


def test_figures_count_waves_inside_brokers() -> None:
    """Replicas and bytes that move inside brokers have figures of their own; waves are counted together."""
    without = report().figures
    figures = report(texts=[FILES[forward(wave)].content for wave in WAVES]).figures
    changed = {name: (without[name], figures[name]) for name in figures if without[name] != figures[name]}
    assert changed == {"waves": (1, 3), "dir_moves": (0, 6), "dir_moved_bytes": (0, 2400)}


def test_figures_ignore_unknown_partitions() -> None:
    """A partition that the cluster lacks has no bytes, and an unreadable document no moves."""
    unknown = FILES[forward(3)].content.replace('"in"', '"gone"')
    figures = report(texts=[unknown, "{", FILES[forward(2)].content]).figures
    assert {name: figures[name] for name in ("waves", "dir_moves", "dir_moved_bytes")} == {
        "waves": 4, "dir_moves": 2, "dir_moved_bytes": 2000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("claims", "wrong"),
    [
        ({}, []),
        ({"dir_moves": 6, "dir_moved_bytes": 2400}, []),
        ({"dir_moves": 5}, ["dir_moves"]),
        ({"dir_moved_bytes": 2401}, ["dir_moved_bytes"]),
    ],
)
def test_claims_about_moves_inside_brokers(claims: Mapping[str, int], wrong: list[str]) -> None:
    """Stated figures must equal the recomputed ones; a plan without them states nothing."""
    violations = report(AuditClaims(**claims), [FILES[forward(wave)].content for wave in WAVES]).violations
    assert [v.subject for v in violations if v.rule == "claims"] == wrong


def gate_messages(change: Change, **figures: float) -> list[str]:
    """What the gate reports about the plan."""
    case = Case()
    change(case)
    hosts = [{f.name: getattr(b, f.name) for f in fields(b)} for b in case.brokers.values()]
    for host_row in hosts:
        host_row["log_dirs"] = [
            {"path": d.path, "capacity_bytes": d.capacity_bytes, "used_bytes": d.used_bytes, "logs": 1,
             "is_open": d.is_open}
            for d in host_row["log_dirs"]
        ]  # fmt: skip
    tables = {
        "instance_brokers": [table_row("instance_brokers", **host_row) for host_row in hosts],
        "instance": [
            table_row(
                "instance", **{f.name: getattr(p, f.name) for f in fields(p)} | {"isr": [*p.replicas], "elr": None}
            )
            for p in case.partitions.values()
        ],
        "documents": [
            {"path": file.path, "kind": file.kind, "wave": file.wave, "content": file.content}
            for file in case.files.values()
        ],
        "plan_summary": [
            table_row("plan_summary", position=i, figure=name, after=value)
            for i, (name, value) in enumerate(figures.items())
        ],
    }
    rows = [("c", name, json.dumps(row)) for name, of_table in tables.items() for row in of_table]
    group = pd.DataFrame(rows, columns=["cluster_id", "table", "row"])
    settings = Settings(clusters=(ClusterInput(id="c", input="unused"),), policy=Policy(exclude_topics=()))
    return list(audit_cluster(group, settings=settings)["message"])


def test_the_gate_passes_the_emitted_documents() -> None:
    """The gate audits the documents of waves inside brokers with the figures of the summary."""
    assert gate_messages(lambda _: None, dir_moves=6, dir_moved_bytes=600) == []
    assert gate_messages(lambda _: None) == []


def test_the_gate_compares_the_summary() -> None:
    """A summary with another number of moves is refused."""
    (message,) = gate_messages(lambda _: None, dir_moves=7)
    assert "claims: dir_moves: the plan states 7, the documents have 6" in message


@pytest.mark.parametrize(("path", "subject"), [(forward(2), "plan"), (back(2), "rollback")])
def test_the_gate_refuses_what_kafka_refuses(path: str, subject: str) -> None:
    """Documents of waves inside brokers pass the checks of Kafka's tool, too."""
    messages = gate_messages(swap(path, "[1,2]", "[1,77]"))
    assert [m for m in messages if m.startswith(f"Kafka would refuse the {subject}: Unknown broker id 77")]


@pytest.mark.all_only
def test_moves_of_a_large_cluster_are_audited_in_seconds() -> None:
    """200,000 replicas that move inside 500 brokers of twelve directories take under 20 CPU seconds."""
    count, hosts = 100_000, 500
    dirs = tuple(log_dir(f"/{i}", 0, 10**9) for i in range(12))
    partitions = [
        AuditPartition(
            topic="t", partition=n, replicas=(n % hosts, (n + 9) % hosts), size_bytes=100, replication_factor=2,
            mobility="free", log_dirs=(f"/{n % 12}", f"/{n % 11}"),
        )
        for n in range(count)
    ]  # fmt: skip
    files = []
    for wave in range(1, 11):
        of_wave = partitions[wave - 1 :: 10]
        common = [{"topic": "t", "partition": p.partition, "replicas": p.replicas} for p in of_wave]
        new = [[f"/{(p.partition + 1) % 12}", f"/{(p.partition + 1) % 11}"] for p in of_wave]
        for path, kind, named in (
            (forward(wave), "dir_moves", new),
            (back(wave), "rollback_dir_moves", [p.log_dirs for p in of_wave]),
        ):
            rows = [row | {"log_dirs": paths} for row, paths in zip(common, named, strict=True)]
            files.append(AuditFile(path, kind, wave, json.dumps({"version": 1, "partitions": rows})))
    case = Case(
        brokers={b: broker(b, None, disk_capacity_bytes=None, log_dirs=dirs) for b in range(hosts)},
        partitions={p.key: p for p in partitions},
        files={file.path: file for file in files},
    )
    began = time.process_time()
    assert case.rules() == {"throttle_missing"}
    assert time.process_time() - began < 20
