"""The throttles of a wave and of its rollback as data, and scripts that set and remove those of the wave."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.dir_move_files import FORWARD
from optimizer.emit.pages import render
from optimizer.emit.rows import ConfigRow, EarlierThrottleRow, PlanRow, ThrottleRow, WaveRow
from optimizer.kafka.throttle import careful_throttles, config_entries, tool_throttles

STYLES = ("careful", "kafka")
_NONE = "-"  # in the unthrottle script: no value
_ABOUT = {
    "careful": "form careful: it throttles only the replicas being copied, with a rate for each broker",
    "kafka": "form kafka: the same as kafka-reassign-partitions.sh --execute --throttle",
}
_ABOUT_INSIDE = {
    "careful": "form careful: a rate for each broker whose replicas move to other log directories",
    "kafka": "form kafka: the same as kafka-reassign-partitions.sh --execute --replica-alter-log-dirs-throttle",
}


def _grouped(rows: Sequence[ConfigRow]) -> list[tuple[str, str, list[ConfigRow]]]:
    """Entries by entity: topics by name, then brokers by id; in each entity the leader's configs first."""
    groups: dict[tuple[str, str], list[ConfigRow]] = {}
    for row in rows:
        groups.setdefault((row.entity_type, row.entity_name), []).append(row)

    def order(key: tuple[str, str]) -> tuple[int, int, str]:
        kind, name = key
        return (1, int(name), "") if kind == "brokers" else (0, 0, name)

    def leader_first(row: ConfigRow) -> tuple[bool, str]:
        return not row.config_name.startswith("leader"), row.config_name

    return [(*key, sorted(groups[key], key=leader_first)) for key in sorted(groups, key=order)]


def _setting(row: ConfigRow) -> str:
    value = row.config_value
    # kafka-configs.sh splits at commas outside brackets.
    return f"{row.config_name}=[{value}]" if "," in value else f"{row.config_name}={value}"


def _about(plan: ClusterPlan, wave: int, style: str) -> str:
    return (_ABOUT_INSIDE if plan.moves_inside(wave) else _ABOUT)[style]


def _throttle(plan: ClusterPlan, wave: int, style: str, rows: Sequence[ThrottleRow]) -> str:
    down = {str(b.broker_id): b.state for b in plan.brokers if b.broker_id in plan.down_brokers}
    lines = []
    for kind, name, entries in _grouped(rows):
        note = f"# Broker is {down[name]}, so this cannot be set: " if kind == "brokers" and name in down else ""
        lines.append(f"{note}configs {kind} '{name}' --add-config '{','.join(map(_setting, entries))}'")
    calls = sum(not line.startswith("#") for line in lines)
    about = _about(plan, wave, style)
    return render("throttle.sh.j2", plan=plan, wave=wave, about=about, lines=lines, calls=calls)


def _entries_to_restore(plan: ClusterPlan, wave: int, rows: Sequence[ThrottleRow]) -> list[ConfigRow]:
    """Entries that the unthrottle script restores: those that the wave sets, and those that ``--verify`` removes.

    ``--verify`` removes the rates of all live brokers and the lists of all topics of the wave.
    """
    down, topics = set(map(str, plan.down_brokers)), plan.topics_of_wave(wave)

    def is_removed_by_verify(row: EarlierThrottleRow) -> bool:
        kind, name = row.entity_type, row.entity_name
        return kind == "brokers" or (kind == "topics" and name in topics)

    entries: dict[tuple[str, str, str], ConfigRow] = {
        _key(row): ConfigRow(*_key(row), row.config_value, previous_value=row.config_value)
        for row in plan.throttles_found
        if not row.is_static and is_removed_by_verify(row)
    }
    entries |= {_key(row): row for row in rows}
    return [row for row in entries.values() if not (row.entity_type == "brokers" and row.entity_name in down)]


def _key(row: ConfigRow | EarlierThrottleRow) -> tuple[str, str, str]:
    return row.entity_type, row.entity_name, row.config_name


def _unthrottle(plan: ClusterPlan, wave: int, style: str, rows: Sequence[ThrottleRow]) -> str:
    groups = _grouped(_entries_to_restore(plan, wave, rows))
    own = {_key(row): row.config_value for row in rows}
    entries = [
        f"{kind} {name} {entry.config_name} {own.get(_key(entry), _NONE)} {entry.previous_value or _NONE}"
        for kind, name, of_entity in groups
        for entry in of_entity
    ]
    return render(
        "unthrottle.sh.j2",
        plan=plan,
        wave=wave,
        about=_about(plan, wave, style),
        document=FORWARD if plan.moves_inside(wave) else "reassignment.json",
        is_inside=bool(plan.moves_inside(wave)),
        entries=entries,
        entities=len(groups),
    )


def _data(rows: Sequence[ThrottleRow], wave: int, copy_bytes_per_s: int) -> str:
    """Both forms. ``copy_bytes_per_s`` is what the copies have of each rate; the rest is for live replication."""
    content = {
        style: [
            {
                "entity_type": kind,
                "entity_name": name,
                "config": entry.config_name,
                "value": entry.config_value,
                "previous_value": entry.previous_value,
            }
            for kind, name, entries in _grouped([row for row in rows if row.style == style])
            for entry in entries
        ]
        for style in STYLES
    }
    return (
        json.dumps({"wave": wave, "copy_bytes_per_s": copy_bytes_per_s, **content}, indent=1, ensure_ascii=False) + "\n"
    )


def _live_traffic(rows: Sequence[PlanRow]) -> tuple[Counter[int], Counter[int]]:
    """Bytes per second of live replication that each broker sends and receives during a rollback of ``rows``.

    Only partitions that copy count, as in the wave itself. After the wave the old leader leads if it stays a replica;
    after the election the first replica leads. Both count as senders, so that the copies always get their rate.
    """
    sent, received = Counter[int](), Counter[int]()
    for row in rows:
        added = set(row.current_replicas).difference(row.proposed_replicas)
        if not added:
            continue
        followers = len(row.proposed_replicas) - 1 + len(added)
        leaders = {broker for broker in row.proposed_replicas if broker in (row.proposed_replicas[0], row.leader)}
        sent.update(dict.fromkeys(leaders, row.in_bytes_per_s * followers))
        received.update(dict.fromkeys(added, row.in_bytes_per_s))
    return sent, received


def _rollback_entries(plan: ClusterPlan, wave: WaveRow) -> list[ThrottleRow]:
    """The throttles of the wave's rollback in both forms; none if it copies nothing.

    The new replicas send, and the replicas that the wave removes receive.
    """
    if wave.inside_brokers:  # the same brokers copy the same bytes back
        return [row for row in plan.throttles if row.wave == wave.wave]
    rows = [row for row in plan.changes_of_wave(wave.wave) if plan.can_roll_back(row)]
    before = {(row.topic, row.partition): row.current_replicas for row in rows}
    after = {(row.topic, row.partition): row.proposed_replicas for row in rows}
    careful = careful_throttles(before, after)
    if not careful.follower_brokers:
        return []
    sent, received = _live_traffic(rows)
    common = wave.copy_bytes_per_s + max(*sent.values(), *received.values())
    leader, follower = (
        {broker: wave.copy_bytes_per_s + live[broker] for broker in careful.brokers} for live in (sent, received)
    )
    entries = {
        "kafka": config_entries(tool_throttles(before, after), common, common),
        "careful": [entry for entry in config_entries(careful, leader, follower) if entry[3]],
    }
    previous = {_key(row): row.config_value for row in plan.throttles_found if not row.is_static}
    return [
        ThrottleRow(*entry, previous_value=previous.get(entry[:3]), wave=wave.wave, style=style)
        for style in STYLES
        for entry in entries[style]
    ]


def throttle_documents(plan: ClusterPlan) -> Iterator[Document]:
    """Of every wave that is throttled data and scripts in both forms; of every rollback that copies its throttles."""
    for wave in plan.waves:
        folder = f"{plan.folder}/{wave_folder(wave.wave, len(plan.waves))}"
        yield from _of_wave(plan, wave, folder)
        if of_rollback := _rollback_entries(plan, wave):
            content = _data(of_rollback, wave.wave, wave.copy_bytes_per_s)
            yield Document(f"{folder}/rollback-throttle.json", "throttle", wave.wave, content)


def _of_wave(plan: ClusterPlan, wave: WaveRow, folder: str) -> Iterator[Document]:
    rows = [row for row in plan.throttles if row.wave == wave.wave]
    if not rows:
        return
    yield Document(f"{folder}/throttle.json", "throttle", wave.wave, _data(rows, wave.wave, wave.copy_bytes_per_s))
    for style in STYLES:
        of_style = [row for row in rows if row.style == style]
        script = _throttle(plan, wave.wave, style, of_style)
        yield Document(f"{folder}/throttle-{style}.sh", "throttle", wave.wave, script)
        script = _unthrottle(plan, wave.wave, style, of_style)
        yield Document(f"{folder}/unthrottle-{style}.sh", "throttle", wave.wave, script)
