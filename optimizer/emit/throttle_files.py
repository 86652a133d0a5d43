"""The throttles of a wave as data and as ``kafka-configs.sh`` commands, to set and to remove."""

import json
from collections.abc import Iterator, Sequence

from optimizer.emit.model import ClusterPlan, Document, Row, wave_folder

STYLES = ("careful", "kafka")
_ABOUT = {
    "careful": "the careful form: the real leader and the added replicas, a rate per broker",
    "kafka": "the form that kafka-reassign-partitions.sh --execute --throttle sets",
}
_HEAD = """#!/bin/sh
# {what} of wave {wave} of cluster {cluster} (run {run}):
# {about}.
# BOOTSTRAP names the cluster. KAFKA_CONFIGS is the tool's path where it is not on PATH; COMMAND_CONFIG a file of
# client properties where the cluster asks for them.
set -eu
: "${{BOOTSTRAP:?set BOOTSTRAP to host:port of a broker}}"
configs() {{
  "${{KAFKA_CONFIGS:-kafka-configs.sh}}" --bootstrap-server "$BOOTSTRAP" \\
    ${{COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"}} --alter --entity-type "$1" --entity-name "$2" "$3" "$4"
}}
"""


def _grouped(rows: Sequence[Row]) -> list[tuple[str, str, list[Row]]]:
    """Entries by entity: topics by name, then brokers by id; in each the leader's side first."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["entity_type"], row["entity_name"]), []).append(row)

    def order(key: tuple[str, str]) -> tuple[int, int, str]:
        kind, name = key
        return (1, int(name), "") if kind == "brokers" else (0, 0, name)

    def leader_first(row: Row) -> tuple[bool, str]:
        return not row["config_name"].startswith("leader"), row["config_name"]

    return [(*key, sorted(groups[key], key=leader_first)) for key in sorted(groups, key=order)]


def _setting(row: Row) -> str:
    value = row["config_value"]
    # kafka-configs.sh splits at commas outside brackets.
    return f"{row['config_name']}=[{value}]" if "," in value else f"{row['config_name']}={value}"


def _script(plan: ClusterPlan, wave: int, style: str, rows: Sequence[Row], *, remove: bool) -> str:
    what = "Removes the throttles" if remove else "Sets the throttles"
    head = _HEAD.format(what=what, wave=wave, cluster=plan.cluster_id, run=plan.run_id, about=_ABOUT[style])
    lines = []
    for kind, name, entries in _grouped(rows):
        if remove:
            option, text = "--delete-config", ",".join(entry["config_name"] for entry in entries)
        else:
            option, text = "--add-config", ",".join(map(_setting, entries))
        dead = kind == "brokers" and int(name) in plan.dead_brokers
        lines.append(f"{'# Dead, nobody can set it: ' if dead else ''}configs {kind} '{name}' {option} '{text}'\n")
    return head + "".join(lines)


def _data(rows: Sequence[Row], wave: int) -> str:
    content = {
        style: [
            {"entity_type": kind, "entity_name": name, "config": entry["config_name"], "value": entry["config_value"]}
            for kind, name, entries in _grouped([row for row in rows if row["style"] == style])
            for entry in entries
        ]
        for style in STYLES
    }
    return json.dumps({"wave": wave, **content}, indent=1, ensure_ascii=False) + "\n"


def throttle_documents(plan: ClusterPlan) -> Iterator[Document]:
    """Data, and scripts of both forms, of every wave that copies something."""
    for wave in (row["wave"] for row in plan.waves):
        rows = [row for row in plan.throttles if row["wave"] == wave]
        if not rows:
            continue
        folder = f"{plan.folder}/{wave_folder(wave, len(plan.waves))}"
        yield Document(f"{folder}/throttle.json", "throttle", wave, _data(rows, wave))
        for style in STYLES:
            of_style = [row for row in rows if row["style"] == style]
            for verb in ("throttle", "unthrottle"):
                script = _script(plan, wave, style, of_style, remove=verb == "unthrottle")
                yield Document(f"{folder}/{verb}-{style}.sh", "throttle", wave, script)
