"""The throttles of a wave as data, and scripts that set and remove them."""

import json
from collections.abc import Iterator, Sequence

from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.pages import render
from optimizer.emit.rows import ConfigRow, EarlierThrottleRow, ThrottleRow

STYLES = ("careful", "kafka")
_ABOUT = {
    "careful": "form careful: it throttles only the replicas being copied, with a rate for each broker",
    "kafka": "form kafka: the same as kafka-reassign-partitions.sh --execute --throttle",
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


def _throttle(plan: ClusterPlan, wave: int, style: str, rows: Sequence[ThrottleRow]) -> str:
    down = {str(b.broker_id): b.state for b in plan.brokers if b.broker_id in plan.down_brokers}
    lines = []
    for kind, name, entries in _grouped(rows):
        note = f"# Broker is {down[name]}, so this cannot be set: " if kind == "brokers" and name in down else ""
        lines.append(f"{note}configs {kind} '{name}' --add-config '{','.join(map(_setting, entries))}'")
    calls = sum(not line.startswith("#") for line in lines)
    return render("throttle.sh.j2", plan=plan, wave=wave, about=_ABOUT[style], lines=lines, calls=calls)


def _entries_to_restore(plan: ClusterPlan, wave: int, rows: Sequence[ThrottleRow]) -> list[ConfigRow]:
    """Entries that the unthrottle script restores: those that the wave sets, and those that ``--verify`` removes.

    ``--verify`` removes the rates of all live brokers and the lists of all topics of the wave.
    """
    down, topics = set(map(str, plan.down_brokers)), {row.topic for row in plan.changes_of_wave(wave)}

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
    previous_values = [
        f"{kind} {name} {entry.config_name} {entry.previous_value or ''}".rstrip()
        for kind, name, entries in groups
        for entry in entries
    ]
    about, entities = _ABOUT[style], len(groups)
    return render(
        "unthrottle.sh.j2", plan=plan, wave=wave, about=about, previous_values=previous_values, entities=entities
    )


def _data(rows: Sequence[ThrottleRow], wave: int) -> str:
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
    return json.dumps({"wave": wave, **content}, indent=1, ensure_ascii=False) + "\n"


def throttle_documents(plan: ClusterPlan) -> Iterator[Document]:
    """Data and scripts in both forms for every wave that is throttled."""
    for wave in (row.wave for row in plan.waves):
        rows = [row for row in plan.throttles if row.wave == wave]
        if not rows:
            continue
        folder = f"{plan.folder}/{wave_folder(wave, len(plan.waves))}"
        yield Document(f"{folder}/throttle.json", "throttle", wave, _data(rows, wave))
        for style in STYLES:
            of_style = [row for row in rows if row.style == style]
            yield Document(f"{folder}/throttle-{style}.sh", "throttle", wave, _throttle(plan, wave, style, of_style))
            script = _unthrottle(plan, wave, style, of_style)
            yield Document(f"{folder}/unthrottle-{style}.sh", "throttle", wave, script)
