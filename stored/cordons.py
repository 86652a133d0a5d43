"""Which brokers runs have cordoned, by the rows of table ``executions``."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

# Events: before and after brokers are cordoned, and when that is over.
CORDONING, CORDONED, UNCORDONED = "cordoning", "cordoned", "uncordoned"


@dataclass(frozen=True)
class Cordon:
    """A broker that a run has cordoned, or was about to.

    Parameters
    ----------
    before : str or None
        Value of the broker's dynamic config before; None if it had none, which is not the empty value.
    since : datetime
    kafka_cluster_id : str or None
        Kafka's own id of the cluster.
    is_set : bool
        Whether the broker had the config, and the controller time to know it.
    is_in_force : bool
        Whether nobody has ended it.
    is_ended_by_hand : bool
        Whether ``./ballast uncordon`` has ended it: then the plan does not cordon the broker again.
    """

    broker: int
    run_id: str
    before: str | None
    since: datetime
    kafka_cluster_id: str | None
    is_set: bool = False
    is_in_force: bool = True
    is_ended_by_hand: bool = False


def in_force(cordons: Mapping[int, Cordon]) -> dict[int, Cordon]:
    """Those that nobody has ended, by broker."""
    return {broker: cordon for broker, cordon in sorted(cordons.items()) if cordon.is_in_force}


def last_cordons(rows: Iterable[Mapping[str, Any]]) -> dict[int, Cordon]:
    """The last cordon of each broker, also if it has ended.

    Parameters
    ----------
    rows : iterable of mapping
        Rows of ``executions`` of one cluster, in the order of their numbers.
    """
    last: dict[int, Cordon] = {}
    for row in rows:
        if row["event"] not in (CORDONING, CORDONED, UNCORDONED):
            continue
        content = json.loads(row["result"])
        if row["event"] == CORDONING:
            facts = row["happened_at"], content["kafka_cluster_id"]
            begun = {int(broker): value for broker, value in content["before"].items()}
            last |= {broker: Cordon(broker, row["run_id"], value, *facts) for broker, value in begun.items()}
        elif row["event"] == CORDONED:
            last |= {broker: replace(last[broker], is_set=True) for broker in content["brokers"]}
        else:
            by_hand = content.get("by") is not None
            for broker in content["brokers"]:
                last[broker] = replace(last[broker], is_in_force=False, is_ended_by_hand=by_hand)
    return last
