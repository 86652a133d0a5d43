"""``dir-moves.json`` of each wave inside brokers: replicas that move to other directories, for Kafka's tool."""

from collections.abc import Iterator, Sequence

from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.rows import DirMoveRow
from optimizer.kafka.reassignment_json import ANY_DIR, format_reassignment

FORWARD, BACK = "dir-moves.json", "rollback-dir-moves.json"


def dir_move_documents(plan: ClusterPlan) -> Iterator[Document]:
    """The documents of each wave inside brokers, and those that take it back."""
    for wave in plan.waves:
        moves = plan.moves_inside(wave.wave)
        if moves:
            folder = f"{plan.folder}/{wave_folder(wave.wave, len(plan.waves))}"
            yield Document(f"{folder}/{FORWARD}", "dir_moves", wave.wave, _text(moves, "to_log_dir"))
            yield Document(f"{folder}/{BACK}", "rollback_dir_moves", wave.wave, _text(moves, "from_log_dir"))


def _text(moves: Sequence[DirMoveRow], column: str) -> str:
    """A reassignment that keeps the brokers of each partition, and names a directory of each replica that moves."""
    replicas, named = dict[tuple[str, int], Sequence[int]](), dict[tuple[str, int, int], str]()
    for row in moves:
        replicas[row.topic, row.partition] = row.replicas
        named[row.topic, row.partition, row.broker_id] = getattr(row, column)
    entries = (
        (*key, brokers, [named.get((*key, broker), ANY_DIR) for broker in brokers]) for key, brokers in replicas.items()
    )
    return format_reassignment(entries) + "\n"
