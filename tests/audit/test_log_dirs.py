"""The audit of log directories: a sound plan passes, each fault breaks its rule, and full directories excuse."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.audit import (
    AuditBroker,
    AuditFile,
    AuditLimits,
    AuditLogDir,
    AuditPartition,
    audit_files,
    audit_plan,
)
from optimizer.audit.claims import Replica
from optimizer.audit.instance import Instance
from optimizer.audit.log_dirs import check_log_dirs
from optimizer.audit.read_documents import read_document
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.throttle_files import throttle_documents
from tests.audit.plans import LIMITS, broker, log_dir, partition, rules_broken
from tests.audit.test_files import BROKERS, PARTITIONS, PLAN

FORWARD, BACK = "log-dirs.json", "rollback-log-dirs.json"
Names = dict[Replica, str]


@dataclass
class Plan:
    """A plan in waves with its directories; tests change one part of it.

    ``planned`` and ``restored`` are directories in the reassignments and rollbacks, by replica.
    """

    brokers: Sequence[AuditBroker]
    partitions: Sequence[AuditPartition]
    targets: Mapping[int, Sequence[int]]
    waves: dict[int, list[int]]
    log_dirs: dict[tuple[int, str], Names]
    texts: dict[str, tuple[int, str]] = field(default_factory=dict)
    planned: Names = field(default_factory=dict)
    restored: Names = field(default_factory=dict)
    limits: AuditLimits = LIMITS

    def files(self) -> list[AuditFile]:
        """Every JSON document with replicas. ``texts`` replace or add documents of directories."""
        before = {p.partition: p.replicas for p in self.partitions}
        rows = []
        for wave, numbers in ((0, list(self.targets)), *self.waves.items()):
            folder = f"c/wave-{wave:02d}" if wave else "c"
            plan = assignment({n: self.targets[n] for n in numbers}, self.planned)
            rollback = assignment({n: before[n] for n in numbers if 8 not in before[n]}, self.restored)
            rows += [AuditFile(f"{folder}/reassignment.json", "reassignment", wave, plan)]
            rows += [AuditFile(f"{folder}/rollback.json", "rollback", wave, rollback)]
        stuck = assignment({n: before[n] for n in self.targets if 8 in before[n]}, self.restored)
        rows.append(AuditFile("c/rollback-not-possible.json", "rollback_not_possible", 0, stuck))
        texts = {f"c/wave-{w:02d}/{name}": (w, directories(names)) for (w, name), names in self.log_dirs.items()}
        for path, (wave, text) in (texts | self.texts).items():
            rows.append(AuditFile(path, "log_dirs", wave, text))
        return rows

    def rules(self) -> list[str]:
        """The rules that the directories break."""
        files = self.files()
        documents = {f.path: read_document(f.content, label=f.path) for f in files if f.kind != "log_dirs"}
        instance = Instance(brokers=self.brokers, partitions=self.partitions, limits=self.limits)
        return [violation.rule for violation in check_log_dirs(instance, documents, files)]


def assignment(lists: Mapping[int, Sequence[int]], named: Names) -> str:
    """Reassignment JSON with a directory for each replica in ``named``."""
    rows = [
        {
            "topic": "t",
            "partition": number,
            "replicas": list(replicas),
            "log_dirs": [named.get(("t", number, broker), "any") for broker in replicas],
        }
        for number, replicas in lists.items()
    ]
    return json.dumps({"version": 1, "partitions": rows})


def row(replica: Replica, path: str) -> dict[str, Any]:
    """An entry of a document of directories."""
    return {"topic": replica[0], "partition": replica[1], "broker": replica[2], "log_dir": path}


def directories(names: Names) -> str:
    """A document of directories."""
    return json.dumps({"version": 1, "replicas": [row(*item) for item in names.items()]})


def sound() -> Plan:
    """Two waves; broker 3 has one directory, a directory of 4 has failed, 8 is dead, /b of 2 is over its limit.

    Partition t-1 fits in /b of broker 1 only after t-0 has left it. The directory of t-4 is unknown.
    """
    hosts = {
        1: [log_dir("/a", 300), log_dir("/b", 850)],
        2: [log_dir("/a", 200), log_dir("/b", 950)],
        3: [log_dir("/a", 300)],
        4: [log_dir("/a", 5000, None), log_dir("/b", is_open=False)],
        5: [log_dir("/a"), log_dir("/b")],
        8: [log_dir("/a"), log_dir("/b")],
    }
    return Plan(
        brokers=[
            broker(b, None, state="dead" if b == 8 else "alive", log_dirs=tuple(dirs)) for b, dirs in hosts.items()
        ],
        partitions=[
            partition(0, 3, 1, log_dirs=("/a", "/b")),
            partition(1, 3, 2, log_dirs=("/a", "/a")),
            partition(2, 1, 3, log_dirs=("/a", "/a")),
            partition(4, 5, log_dirs=("any",)),
            partition(5, 8, log_dirs=("/a",)),
        ],
        targets={0: [3, 2], 1: [3, 1], 2: [4, 3], 4: [3], 5: [5]},
        waves={1: [0, 2], 2: [1, 4, 5]},
        log_dirs={
            (1, FORWARD): {("t", 0, 2): "/a", ("t", 2, 4): "/a"},
            (1, BACK): {("t", 0, 1): "/b", ("t", 2, 1): "/a"},
            (2, FORWARD): {("t", 1, 1): "/b", ("t", 5, 5): "/b"},
            (2, BACK): {("t", 1, 2): "/a"},
        },
    )


def naming() -> Plan:
    """The same plan with directories in all documents."""
    plan = sound()
    plan.planned = plan.log_dirs[1, FORWARD] | plan.log_dirs[2, FORWARD]
    plan.restored = plan.log_dirs[1, BACK] | plan.log_dirs[2, BACK] | {("t", 5, 8): "/a"}
    return plan


def name_in(wave: int, document: str, number: int, broker_id: int, path: str | None) -> Callable[[Plan], object]:
    """Name a directory in a document; None removes the name."""

    def change(plan: Plan) -> None:
        names = plan.log_dirs[wave, document]
        if path is None:
            del names["t", number, broker_id]
        else:
            names["t", number, broker_id] = path

    return change


def text_of(wave: int, document: str, text: str) -> Callable[[Plan], object]:
    """Replace a document."""
    return lambda plan: plan.texts.update({f"c/wave-{wave:02d}/{document}": (wave, text)})


def replicas_json(*rows: dict[str, Any]) -> str:
    """A document of directories from rows."""
    return json.dumps({"version": 1, "replicas": list(rows)})


def with_log_dirs(broker_id: int, *dirs: AuditLogDir) -> Callable[[Plan], object]:
    """Give a broker other directories."""

    def change(plan: Plan) -> None:
        plan.brokers = [replace(b, log_dirs=dirs) if b.broker_id == broker_id else b for b in plan.brokers]

    return change


ROW = row(("t", 1, 1), "/b")
SECOND = row(("t", 5, 5), "/b")
BROKEN: list[tuple[str, Callable[[Plan], object], list[str]]] = [
    ("no such directory", name_in(1, FORWARD, 0, 2, "/x"), ["known_log_dir"]),
    ("broker with one directory", name_in(2, FORWARD, 4, 3, "/a"), ["known_log_dir"]),
    ("failed directory", name_in(1, FORWARD, 2, 4, "/b"), ["open_log_dir"]),
    ("replica of another wave", name_in(1, FORWARD, 1, 1, "/a"), ["log_dir_arrival"]),
    ("replica that stays", name_in(1, FORWARD, 0, 3, "/a"), ["log_dir_arrival"]),
    ("replica that leaves", name_in(1, FORWARD, 0, 1, "/a"), ["log_dir_arrival"]),
    ("unknown partition", name_in(1, FORWARD, 9, 2, "/a"), ["log_dir_arrival"]),
    ("unknown broker", name_in(1, FORWARD, 0, 77, "/a"), ["log_dir_arrival"]),
    ("arrival without a directory", name_in(1, FORWARD, 2, 4, None), ["log_dir_missing"]),
    ("lost document", lambda plan: plan.log_dirs.pop((2, FORWARD)), ["log_dir_missing"] * 2),
    ("return to another directory", name_in(1, BACK, 0, 1, "/a"), ["log_dir_return"]),
    ("return of a replica that stays", name_in(1, BACK, 0, 3, "/a"), ["log_dir_return"]),
    ("return to an unknown directory", name_in(2, BACK, 4, 5, "/a"), ["log_dir_return"]),
    ("return of another wave", name_in(1, BACK, 1, 2, "/a"), ["log_dir_return"]),
    ("return to a dead broker", name_in(2, BACK, 5, 8, "/a"), ["log_dir_return"]),
    ("return of an unknown partition", name_in(1, BACK, 9, 1, "/a"), ["log_dir_return"]),
    ("return without a directory", name_in(1, BACK, 0, 1, None), ["log_dir_missing"]),
    ("lost document of the rollback", lambda plan: plan.log_dirs.pop((2, BACK)), ["log_dir_missing"]),
    ("directory over its limit before", name_in(1, FORWARD, 0, 2, "/b"), ["log_dir_capacity"]),
    ("directory full at the end", with_log_dirs(2, log_dir("/a", 801), log_dir("/b")), ["log_dir_capacity"]),
    ("no document of this name", lambda plan: plan.texts.update({"c/wave-01/x.json": (1, "")}), ["log_dirs"]),
    ("no such wave", lambda plan: plan.texts.update({"c/wave-03/log-dirs.json": (3, "")}), ["log_dirs"]),
    ("other wave", lambda plan: plan.texts.update({"c/wave-01/rollback-log-dirs.json": (2, "")}),
     ["log_dirs", "log_dir_missing", "log_dir_missing"]),
    ("no JSON", text_of(2, FORWARD, "{"), ["document"]),
    ("no object", text_of(2, FORWARD, "[]"), ["document"]),
    ("nested deeply", text_of(2, BACK, "[" * 100_000), ["document"]),
    ("no replicas", text_of(2, FORWARD, replicas_json()), ["document"]),
    ("other version", text_of(2, FORWARD, '{"version": 2, "replicas": [1]}'), ["document"]),
    ("replica twice", text_of(2, FORWARD, replicas_json(ROW, SECOND, ROW)), ["document"]),
    ("directory any", text_of(2, FORWARD, replicas_json(ROW, SECOND | {"log_dir": "any"})), ["document"]),
    ("directory no text", text_of(2, FORWARD, replicas_json(ROW, SECOND | {"log_dir": None})), ["document"]),
    ("partition a text", text_of(2, FORWARD, replicas_json(ROW, SECOND | {"partition": "5"})), ["document"]),
    ("broker a boolean", text_of(2, FORWARD, replicas_json(ROW, SECOND | {"broker": True})), ["document"]),
    ("topic a list", text_of(2, FORWARD, replicas_json(ROW, SECOND | {"topic": ["t"]})), ["document"]),
    ("no topic", text_of(2, BACK, replicas_json({"partition": 1})), ["document"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "rules"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_fault_breaks_its_rule(change: Callable[[Plan], object], rules: list[str]) -> None:
    """A sound plan with one change has exactly these violations."""
    plan = sound()
    change(plan)
    assert plan.rules() == rules


SOUND: list[tuple[str, Callable[[Plan], object]]] = [
    ("nothing changed", lambda _: None),
    ("no replica has a directory", lambda plan: [plan.log_dirs.pop((wave, FORWARD)) for wave in (1, 2)]),
    ("just enough space", with_log_dirs(2, log_dir("/a", 800), log_dir("/b"))),
    ("no directory open, none named", lambda plan: (
        with_log_dirs(4, log_dir("/a", is_open=False), log_dir("/b", is_open=False))(plan),
        name_in(1, FORWARD, 2, 4, None)(plan),
    )),
    ("old directory cordoned, named", with_log_dirs(1, log_dir("/a", is_open=False), log_dir("/b", 700))),
    ("old directory cordoned, not named", lambda plan: (
        with_log_dirs(1, log_dir("/a", is_open=False), log_dir("/b", 700))(plan), name_in(1, BACK, 2, 1, None)(plan),
    )),
    ("capacity 0 is unknown", with_log_dirs(2, log_dir("/a", 5000, 0), log_dir("/b"))),
]  # fmt: skip


@pytest.mark.parametrize("change", [case[1] for case in SOUND], ids=[case[0] for case in SOUND])
def test_a_sound_plan_passes(change: Callable[[Plan], object]) -> None:
    """Directories are limited where their capacity is known, and required where one is open."""
    plan = sound()
    change(plan)
    assert plan.rules() == []


def test_space_is_counted_wave_by_wave() -> None:
    """A replica that arrives before others have left is over the limit; in the next wave it is not."""
    plan = sound()
    plan.waves = {1: [0, 1, 2], 2: [4, 5]}
    for name in (FORWARD, BACK):
        moved = {replica: path for replica, path in plan.log_dirs[2, name].items() if replica[1] == 1}
        plan.log_dirs[1, name] |= moved
        plan.log_dirs[2, name] = {k: path for k, path in plan.log_dirs[2, name].items() if k not in moved}
    del plan.log_dirs[2, BACK]
    assert plan.rules() == ["log_dir_capacity"]


PLANNED: list[tuple[str, Callable[[Plan], object], int]] = [
    ("nothing changed", lambda _: None, 0),
    ("no directory in the rollbacks", lambda plan: plan.restored.clear(), 0),
    ("another directory", lambda plan: plan.planned.update({("t", 0, 2): "/b"}), 2),
    ("replica that stays", lambda plan: plan.planned.update({("t", 0, 3): "/a"}), 2),
    ("one directory missing", lambda plan: plan.planned.pop(("t", 2, 4)), 2),
    ("rollback to another directory", lambda plan: plan.restored.update({("t", 1, 2): "/b"}), 2),
    ("replica that stays in the rollback", lambda plan: plan.restored.update({("t", 1, 3): "/a"}), 2),
    ("no rollback, another directory", lambda plan: plan.restored.update({("t", 5, 8): "/b"}), 1),
]


@pytest.mark.parametrize(("change", "count"), [case[1:] for case in PLANNED], ids=[case[0] for case in PLANNED])
def test_reassignments_name_the_same_directories(change: Callable[[Plan], object], count: int) -> None:
    """A document names no directory, or those of the documents of directories, in the whole plan and in a wave."""
    plan = naming()
    change(plan)
    assert plan.rules() == ["reassignment_log_dirs"] * count


def test_a_directory_alone_is_no_change() -> None:
    """An entry that keeps its list is needless, also with directories: moves inside brokers have other documents."""
    row = partition(0, 1, 2)
    text = assignment({0: [1, 2]}, {("t", 0, 1): "/b"})
    report = audit_plan(
        brokers=[broker(1, None), broker(2, None)],
        partitions=[row],
        waves=[text],
        whole=text,
        rollback=text,
        limits=LIMITS,
        claims=None,
    )
    assert rules_broken(report) == {"needless"}


def test_the_audit_of_documents_checks_directories() -> None:
    """``audit_files`` reports what these rules find, and nothing else about a sound plan without throttles."""
    for change, rules in ((lambda _: None, set()), (name_in(1, FORWARD, 2, 4, "/b"), {"open_log_dir"})):
        plan = sound()
        change(plan)
        others = {"throttle_missing", "topics_to_move"}
        violations = audit_files(
            brokers=plan.brokers, partitions=plan.partitions, limits=plan.limits, files=plan.files()
        )
        assert {v.rule for v in violations} - others == rules


@pytest.mark.parametrize("named", [False, True])
def test_emitted_documents_pass(named: bool) -> None:
    """Directories in the documents that are emitted, with a partition that cannot be rolled back, break no rule."""
    changed = []
    for change in PLAN.changed:
        arrives = [b not in change.current_replicas for b in change.proposed_replicas]
        planned = ["/b" if is_new else "any" for is_new in arrives] if any(arrives) else None
        old = ["/a" for _ in change.current_replicas]
        changed.append(replace(change, log_dirs=old, planned_log_dirs=planned))
    dirs = [{"path": path, "is_open": True} for path in ("/a", "/b")]
    rows = [replace(b, log_dirs=dirs) for b in PLAN.brokers]
    plan = replace(PLAN, changed=changed, brokers=rows, plan_log_dirs=named)
    documents = [*kafka_documents(plan), *throttle_documents(plan)]
    files = [AuditFile(d.path, d.kind, d.wave, d.content) for d in documents]
    assert {f.path for f in files if f.kind == "log_dirs"} == {f"c/wave-01/{name}" for name in (FORWARD, BACK)}
    hosts = [replace(b, log_dirs=(log_dir("/a", 500), log_dir("/b"))) for b in BROKERS]
    partitions = [replace(p, log_dirs=("/a",) * len(p.replicas)) for p in PARTITIONS]
    assert audit_files(brokers=hosts, partitions=partitions, limits=LIMITS, files=files) == ()


@st.composite
def dealt_plans(draw: st.DrawFn) -> Plan:
    """Random moves between brokers with directories that are exactly as large as the plan needs."""
    paths = {b: [f"/{i}" for i in range(draw(st.integers(1, 3)))] for b in range(1, 6)}
    partitions, targets = [], {}
    waves: dict[int, list[int]] = {}
    for number in range(draw(st.integers(1, 8))):
        before, after = (draw(st.lists(st.integers(1, 5), min_size=2, max_size=2, unique=True)) for _ in range(2))
        dirs = tuple(draw(st.sampled_from([*paths[b], "any"])) for b in before)
        partitions.append(partition(number, *before, size_bytes=draw(st.integers(1, 100)), log_dirs=dirs))
        targets[number] = after
        waves.setdefault(draw(st.integers(1, 3)), []).append(number)
    waves = {i: numbers for i, (_, numbers) in enumerate(sorted(waves.items()), start=1)}
    log_dirs: dict[tuple[int, str], Names] = {}
    used: Counter[tuple[int, str]] = Counter()
    for p in partitions:
        used.update({(b, path): p.size_bytes for b, path in zip(p.replicas, p.log_dirs, strict=True)})
    at_first, peak = used.copy(), used.copy()
    for wave, numbers in waves.items():
        forward, back, leaving = {}, {}, []
        for number in numbers:
            p = partitions[number]
            for b in set(targets[number]) - set(p.replicas):
                if len(paths[b]) > 1:
                    forward["t", number, b] = draw(st.sampled_from(paths[b]))
                    used[b, forward["t", number, b]] += p.size_bytes
            for b, path in zip(p.replicas, p.log_dirs, strict=True):
                if b not in targets[number] and len(paths[b]) > 1 and path != "any":
                    back["t", number, b] = path
                    leaving.append((b, path, p.size_bytes))
        peak |= used
        for b, path, size in leaving:
            used[b, path] -= size
        log_dirs |= {(wave, name): names for name, names in ((FORWARD, forward), (BACK, back)) if names}
    hosts = [
        broker(b, None, log_dirs=tuple(log_dir(d, at_first[b, d], max(peak[b, d], 1)) for d in paths[b])) for b in paths
    ]
    return Plan(hosts, partitions, targets, waves, log_dirs, limits=AuditLimits(disk_headroom=0.0))


@settings(deadline=None)
@given(dealt_plans(), st.data())
def test_random_deals(plan: Plan, data: st.DataObject) -> None:
    """A deal passes if each directory has just the space; a replica in a full directory or without one is caught."""
    assert plan.rules() == []
    named = [(key, replica) for key, names in plan.log_dirs.items() if key[1] == FORWARD for replica in names]
    if not named:
        return
    key, replica = data.draw(st.sampled_from(named))
    full = deepcopy(plan)
    full.brokers = [replace(b, log_dirs=(*b.log_dirs, log_dir("/full", 500, 500))) for b in plan.brokers]
    full.log_dirs[key][replica] = "/full"
    assert "log_dir_capacity" in full.rules()
    del plan.log_dirs[key][replica]
    is_last = len(named) == 1
    texts = {path for path, names in plan.log_dirs.items() if not names}
    plan.log_dirs = {path: names for path, names in plan.log_dirs.items() if path not in texts}
    assert plan.rules() == ([] if is_last else ["log_dir_missing"])


@pytest.mark.all_only
def test_directories_of_a_large_plan_are_audited_in_seconds() -> None:
    """A plan that moves 100,000 partitions between 500 brokers of twelve directories takes under 10 CPU seconds."""
    count, hosts = 100_000, 500
    dirs = tuple(log_dir(f"/{i}", 0, 10**9) for i in range(12))
    plan = Plan(
        brokers=[broker(b, None, disk_capacity_bytes=None, log_dirs=dirs) for b in range(hosts)],
        partitions=[
            partition(n, n % hosts, (n + 9) % hosts, log_dirs=(f"/{n % 12}", f"/{n % 11}")) for n in range(count)
        ],
        targets={n: [(n + 1) % hosts, (n + 9) % hosts] for n in range(count)},
        waves={w: list(range(w - 1, count, 10)) for w in range(1, 11)},
        log_dirs={},
    )
    for wave, numbers in plan.waves.items():
        plan.log_dirs[wave, FORWARD] = {("t", n, (n + 1) % hosts): f"/{n % 12}" for n in numbers}
        plan.log_dirs[wave, BACK] = {("t", n, n % hosts): f"/{n % 12}" for n in numbers}
    files = plan.files()
    documents = {f.path: read_document(f.content, label=f.path) for f in files if f.kind != "log_dirs"}
    instance = Instance(brokers=plan.brokers, partitions=plan.partitions, limits=plan.limits)
    began = time.process_time()
    assert list(check_log_dirs(instance, documents, files)) == []
    assert time.process_time() - began < 10
