"""Moves inside brokers of another tool's plan: replicas that change the directory, and stay on the broker."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from asking.judge.belongs import directories_of
from asking.judge.their_plan import Inside, Kind, NamedPartition, TheirPlan
from optimizer.domain import LogDir
from optimizer.kafka.reassignment_json import ANY_DIR
from optimizer.units import human_bytes, plural

_KEY = ["topic", "partition"]
# Columns of table ``dir_moves`` without waves.
_COLUMNS = [*_KEY, "broker_id", "replicas", "from_log_dir", "to_log_dir", "size_bytes"]
Dirs = Mapping[int, Sequence[LogDir]]


def moves_inside(their_plan: TheirPlan, instance: pd.DataFrame, log_dirs: Dirs) -> tuple[pd.DataFrame, Sequence[str]]:
    """The moves inside brokers, as ``dir_move_rows`` takes them, and sentences about what is not known.

    Parameters
    ----------
    instance : DataFrame
        Rows of ``instance``.
    log_dirs : mapping
        The directories of each broker for which they are known.
    """
    if their_plan.kind is Kind.CRUISE_CONTROL:
        return _by_summary(their_plan, instance, log_dirs)
    given = [(*named.key, broker, path, list(named.replicas)) for named, broker, path in directories_of(their_plan)]
    named = pd.DataFrame(given, columns=[*_KEY, "broker_id", "to_log_dir", "replicas"])
    now = instance[[*_KEY, "replicas", "log_dirs", "size_bytes"]].merge(named[_KEY].drop_duplicates(), on=_KEY)
    now = now.rename(columns={"replicas": "broker_id", "log_dirs": "from_log_dir"}).explode(
        ["broker_id", "from_log_dir"]
    )
    sizes = now.drop_duplicates(_KEY)[[*_KEY, "size_bytes"]]
    places = now[[*_KEY, "broker_id", "from_log_dir"]].astype({"broker_id": named["broker_id"].dtype})
    rows = named.merge(sizes, on=_KEY).merge(places, on=[*_KEY, "broker_id"], how="left", indicator="found")
    is_new = rows["found"] == "left_only"
    is_unknown = ~is_new & (rows["from_log_dir"].isna() | (rows["from_log_dir"] == ANY_DIR))
    has_several = rows["broker_id"].map(lambda broker: len(log_dirs.get(broker, ())) != 1).astype(bool)
    moves = rows[~is_new & ~is_unknown & (rows["from_log_dir"] != rows["to_log_dir"])]
    return moves[_COLUMNS], [
        *_uncounted(rows[is_unknown & has_several], "the run does not know their present directories"),
        *_uncounted(rows[is_new & has_several], "Kafka may first put new replicas into other directories"),
    ]


def _uncounted(rows: pd.DataFrame, reason: str) -> Iterator[str]:
    if len(rows):
        size, count = human_bytes(rows["size_bytes"].sum()), plural(len(rows), "replica")
        yield f"Up to {size} more may move inside brokers, of {count}: {reason}."


def _by_summary(their_plan: TheirPlan, instance: pd.DataFrame, log_dirs: Dirs) -> tuple[pd.DataFrame, Sequence[str]]:
    """The moves that the summary of Cruise Control counts, on the brokers on which they take longest.

    The partitions are those whose brokers stay; first those whose leader stays too, so that nothing else can change.
    """
    staying = [each for each in their_plan.partitions.values() if set(each.replicas) == set(each.old_replicas or ())]
    certain = {each.key for each in staying if _is_certain(each)}
    summary = their_plan.inside or Inside(len(certain), 0)
    if not summary.replicas:
        return pd.DataFrame(columns=_COLUMNS), []
    named = pd.DataFrame([(*x.key, x.key not in certain) for x in staying], columns=[*_KEY, "is_uncertain"])
    rows = instance[[*_KEY, "replicas", "size_bytes"]].merge(named, on=_KEY)
    each = rows.assign(broker_id=rows["replicas"]).explode("broker_id").astype({"broker_id": "int64"})
    several = [len(log_dirs.get(broker, ())) > 1 for broker in each["broker_id"]]
    each = each[several] if any(several) else each
    on_broker = each.groupby("broker_id")["size_bytes"].sum()
    each = each.assign(on_broker=each["broker_id"].map(on_broker))
    each = each.sort_values(["on_broker", "broker_id"], ascending=[False, True], kind="stable")
    each = each.assign(turn=each.groupby(_KEY).cumcount())
    ascending = [True, True, False, True, True]
    each = each.sort_values(["turn", "is_uncertain", "size_bytes", *_KEY], ascending=ascending, kind="stable")
    moves = each.head(summary.replicas).assign(from_log_dir=None, to_log_dir=None)[_COLUMNS]
    return moves, [_about_summary(summary, len(moves))]


def _is_certain(named: NamedPartition) -> bool:
    """Whether a directory is all that can change in a proposal of Cruise Control."""
    return named.replicas == named.old_replicas and named.old_leader in (None, named.replicas[0])


def _about_summary(summary: Inside, found: int) -> str:
    size = f" ({human_bytes(summary.size_bytes)})" if summary.size_bytes else ""
    text = f"Cruise Control moves {plural(summary.replicas, 'replica')}{size} inside brokers and does not say where"
    missing = summary.replicas - found
    if missing > 0:
        return f"{text}: its proposals show {found:,}; bytes and times are without the other {missing:,}."
    return f"{text}: bytes are those of the run, and times are for the brokers on which they take longest."
