"""Rules that another tool's plan breaks, by the audit that each plan of Ballast must pass, as sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from optimizer.audit import Excess, Violation, audit_plan, brokers_from_rows, partitions_from_rows
from optimizer.domain import NOT_LIVE
from optimizer.kafka.reassignment_json import format_reassignment, partition_name
from optimizer.planning.in_memory import records
from optimizer.planning.unexplained import audit_limits
from optimizer.settings import Settings
from optimizer.units import human_bytes, plural

_SHOWN = 5  # violations that are printed; the rest is counted
# The bytes after a wave are never more than those during it: this rule says nothing new.
_AFTER = "capacity_after"


@dataclass(frozen=True)
class BrokenRule:
    """A violation: the rule of the audit, the broker or partition that breaks it, and a sentence about it."""

    rule: str
    subject: str
    text: str


def broken_rules(
    instance: pd.DataFrame, hosts: pd.DataFrame, changed: pd.DataFrame, settings: Settings
) -> list[BrokenRule]:
    """Rules that a plan breaks in Ballast's waves; what it leaves as it was breaks none.

    Parameters
    ----------
    instance, hosts : DataFrame
        Rows of ``instance`` and ``instance_brokers`` of one cluster.
    changed : DataFrame
        Rows of ``compare_lists`` that the plan changes, with waves. Those without a wave come after the last one.
    """
    if changed.empty:
        return []
    placed = changed[changed["wave"].notna()]
    waves = [rows for _, rows in placed.groupby("wave")]
    unplaced = changed[changed["wave"].isna()]
    limits = replace(
        audit_limits(settings, str(hosts["cluster_id"].iloc[0])),
        max_moves_per_wave=None,  # the waves are Ballast's
        max_unexplained=1.0,
    )
    report = audit_plan(
        brokers=brokers_from_rows(records(hosts)),
        partitions=partitions_from_rows(records(instance)),
        waves=[_document(rows, "proposed_replicas") for rows in (*waves, *([unplaced] if len(unplaced) else []))],
        whole=_document(changed, "proposed_replicas"),
        rollback=_rollback(changed, hosts),
        limits=limits,
        claims=None,
    )
    columns = (instance[name] for name in ("topic", "partition", "fixed_reason"))
    reasons = {partition_name((topic, int(n))): reason for topic, n, reason in zip(*columns, strict=True)}
    return [
        BrokenRule(each.rule, each.subject, _sentence(each, len(waves), str(reasons.get(each.subject))))
        for each in report.violations
        if not each.is_left and each.rule != _AFTER
    ]


def full_directories(dir_balance: Sequence[Mapping[str, Any]]) -> Iterator[BrokenRule]:
    """Directories that the plan fills over their limits, if it names directories.

    Parameters
    ----------
    dir_balance : rows of this table
    """
    for row in dir_balance:
        peak, limit, now = row["peak_bytes"], row["limit_bytes"], row["before_bytes"]
        if limit is not None and peak > max(limit, now):
            where = f"{row['log_dir']} of broker {row['broker_id']}"
            excess = Excess(int(peak), int(limit), int(row["peak_wave"]))
            yield BrokenRule(
                "capacity_during", f"directory {where}", _over_disk(f"Directory {where}", excess, excess.wave)
            )


def _document(rows: pd.DataFrame, lists: str) -> str:
    columns = zip(rows["topic"], rows["partition"], rows[lists], strict=True)
    return format_reassignment([(topic, int(number), list(ids), None) for topic, number, ids in columns])


def _rollback(changed: pd.DataFrame, hosts: pd.DataFrame) -> str | None:
    """The old lists, without those that Kafka refuses because a broker is down."""
    down = set(hosts.loc[hosts["state"].isin(NOT_LIVE), "broker_id"])
    restored = changed[[down.isdisjoint(ids) for ids in changed["current_replicas"]]]
    return _document(restored, "current_replicas") if len(restored) else None


def _sentence(violation: Violation, n_waves: int, fixed_reason: str) -> str:
    if violation.excess and violation.rule == "limit":
        return _over_limit(violation.subject, violation.excess)
    if violation.excess:
        return _over_disk(violation.subject.capitalize(), violation.excess, n_waves)
    if violation.rule == "fixed":
        return f"{violation.subject} must not move: {fixed_reason}."
    return f"{violation.subject}: {violation.detail}."


def _over_disk(place: str, excess: Excess, n_waves: int) -> str:
    planned, allowed = _bytes(excess)
    when = f"in wave {excess.wave}" if excess.wave <= n_waves else "with the partitions that fit into no wave"
    return f"{place} would hold {planned} {when}; at most {allowed} are allowed."


def _over_limit(figure: str, excess: Excess) -> str:
    if figure == "moved_bytes":
        planned, allowed = _bytes(excess)
        return f"Their plan copies {planned}; the policy allows {allowed}."
    return f"Their plan copies {plural(excess.planned, 'replica')}; the policy allows {excess.allowed:,}."


def _bytes(excess: Excess) -> tuple[str, str]:
    """Both numbers in large units, or exact if these are equal."""
    planned, allowed = human_bytes(excess.planned), human_bytes(excess.allowed)
    if planned == allowed:
        return plural(excess.planned, "byte"), plural(excess.allowed, "byte")
    return planned, allowed


def lines_about(broken: Sequence[BrokenRule]) -> Iterator[str]:
    """The counts, and the first sentences."""
    if broken:
        rules = {each.rule for each in broken}
        yield f"Their plan has {plural(len(broken), 'violation')} of {plural(len(rules), 'rule')}:"
        yield from (each.text for each in broken[:_SHOWN])
        if len(broken) > _SHOWN:
            yield f"And {len(broken) - _SHOWN:,} more: --json lists all."
