"""``log-dirs.json`` of each wave: where the replicas of the wave, and of its way back, shall be created."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.rows import PlanRow
from optimizer.kafka.reassignment_json import ANY_DIR

FORMAT = 1  # version of the file format; raise it if readers must change
FORWARD, BACK = "log-dirs.json", "rollback-log-dirs.json"
Directories = Mapping[int, str]


def arriving(row: PlanRow) -> Directories:
    """The directory of each replica that arrives, by broker; without those that Kafka may place."""
    named = zip(row.proposed_replicas, row.planned_log_dirs or (), strict=row.planned_log_dirs is not None)
    return {broker: path for broker, path in named if path != ANY_DIR}


def returning(plan: ClusterPlan, row: PlanRow) -> Directories:
    """The old directory of each replica that a rollback brings back to a broker with several, if it is open."""
    back = plan.open_log_dirs.keys() & {*row.current_replicas} - {*row.proposed_replicas}
    if not back:
        return {}
    known = zip(row.current_replicas, row.log_dirs, strict=True)
    return {broker: path for broker, path in known if broker in back and path in plan.open_log_dirs[broker]}


def log_dir_documents(plan: ClusterPlan) -> Iterator[Document]:
    """The documents of each wave that has a replica with a directory; none for brokers with one directory."""
    for wave in plan.waves:
        folder, rows = f"{plan.folder}/{wave_folder(wave.wave, len(plan.waves))}", plan.changes_of_wave(wave.wave)
        reversible = [row for row in rows if plan.can_roll_back(row)]
        for name, of, part in ((FORWARD, arriving, rows), (BACK, lambda row: returning(plan, row), reversible)):
            replicas = _replicas(part, of)
            if replicas:
                text = json.dumps({"version": FORMAT, "replicas": replicas}, ensure_ascii=False, indent=1) + "\n"
                yield Document(f"{folder}/{name}", "log_dirs", wave.wave, text)


def _replicas(rows: Sequence[PlanRow], of: Callable[[PlanRow], Directories]) -> list[dict[str, object]]:
    return [
        {"topic": row.topic, "partition": row.partition, "broker": broker, "log_dir": path}
        for row in sorted(rows, key=lambda row: (row.topic, row.partition))
        for broker, path in sorted(of(row).items())
    ]
