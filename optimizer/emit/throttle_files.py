"""The throttles of a wave as data and as scripts, to set and to take off."""

import json
from collections.abc import Iterator, Sequence

from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.pages import render
from optimizer.emit.rows import ConfigRow, FoundRow, ThrottleRow

STYLES = ("careful", "kafka")
_ABOUT = {
    "careful": "the careful form: only the replicas being copied, whichever broker leads them, a rate for each broker",
    "kafka": "the form that kafka-reassign-partitions.sh --execute --throttle sets",
}


def _grouped(rows: Sequence[ConfigRow]) -> list[tuple[str, str, list[ConfigRow]]]:
    """Entries by entity: topics by name, then brokers by id; in each the leader's side first."""
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
        note = f"# {down[name].capitalize()}, nobody can set it: " if kind == "brokers" and name in down else ""
        lines.append(f"{note}configs {kind} '{name}' --add-config '{','.join(map(_setting, entries))}'")
    calls = sum(not line.startswith("#") for line in lines)
    return render("throttle.sh.j2", plan=plan, wave=wave, about=_ABOUT[style], lines=lines, calls=calls)


def _put_back(plan: ClusterPlan, wave: int, rows: Sequence[ThrottleRow]) -> list[ConfigRow]:
    """What a wave sets, with the value from before; and what ``--verify`` takes off besides.

    That is every rate of every broker that lives, and the lists of all topics that the wave names.
    """
    down, topics = set(map(str, plan.down_brokers)), {row.topic for row in plan.of_wave(wave)}

    def is_taken_off(row: FoundRow) -> bool:
        kind, name = row.entity_type, row.entity_name
        return kind == "brokers" or (kind == "topics" and name in topics)

    found: dict[tuple[str, str, str], ConfigRow] = {
        _key(row): ConfigRow(*_key(row), row.config_value, previous_value=row.config_value)
        for row in plan.throttles_found
        if not row.is_static and is_taken_off(row)
    }
    every = found | {_key(row): row for row in rows}
    return [row for row in every.values() if not (row.entity_type == "brokers" and row.entity_name in down)]


def _key(row: ConfigRow | FoundRow) -> tuple[str, str, str]:
    return row.entity_type, row.entity_name, row.config_name


def _unthrottle(plan: ClusterPlan, wave: int, style: str, rows: Sequence[ThrottleRow]) -> str:
    groups = _grouped(_put_back(plan, wave, rows))
    wanted = [
        f"{kind} {name} {entry.config_name} {entry.previous_value or ''}".rstrip()
        for kind, name, entries in groups
        for entry in entries
    ]
    about, entities = _ABOUT[style], len(groups)
    return render("unthrottle.sh.j2", plan=plan, wave=wave, about=about, wanted=wanted, entities=entities)


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
    """Data, and scripts of both forms, of every wave that copies something."""
    for wave in (row.wave for row in plan.waves):
        rows = [row for row in plan.throttles if row.wave == wave]
        if not rows:
            continue
        folder = f"{plan.folder}/{wave_folder(wave, len(plan.waves))}"
        yield Document(f"{folder}/throttle.json", "throttle", wave, _data(rows, wave))
        for style in STYLES:
            of_style = [row for row in rows if row.style == style]
            yield Document(f"{folder}/throttle-{style}.sh", "throttle", wave, _throttle(plan, wave, style, of_style))
            off = _unthrottle(plan, wave, style, of_style)
            yield Document(f"{folder}/unthrottle-{style}.sh", "throttle", wave, off)
