"""What was predicted and measured of a wave whose copies are done, for the journal."""

import json
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from execution import claims
from execution.observed import Stored
from execution.planned import Plan
from execution.wave import Wave
from stored.tables import Warehouse


def measured(warehouse: Warehouse, plan: Plan, wave: Wave, stored: Callable[[Collection[int]], Stored]) -> str:
    """Predicted and measured seconds and bytes, as JSON; null where they are unknown.

    Parameters
    ----------
    stored : callable
        Returns what the directories of some brokers have.
    """
    copies = {(*partition, broker) for partition in wave.after for broker in wave.targets(partition)}
    sizes = stored(sorted({broker for _, _, broker in copies})).size_bytes
    rows = warehouse.rows("waves", cluster_id=plan.cluster_id, run_id=plan.run_id, wave=wave.number)
    begun = claims.started_at(claims.since_hold(warehouse, plan, wave.number))
    result = {
        "predicted_seconds": plan.wave_seconds.get(wave.number),
        "measured_seconds": round((datetime.now(tz=UTC) - begun).total_seconds(), 1) if begun else None,
        "predicted_bytes": rows[0]["moved_bytes"] if rows else None,
        "copied_bytes": sum(sizes.get(copy, 0) for copy in copies),
    }
    return json.dumps(result)
