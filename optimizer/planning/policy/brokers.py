"""What each broker of a cluster accepts under the policy."""

import pandas as pd

from optimizer.cluster_policy import DRAIN, RACKS, ClusterPolicy
from optimizer.topic_policy import Pin

# Columns that ``decide_brokers`` reads: those of table ``brokers``, and whether a replica list names the broker.
FACTS = ("broker_id", "rack", "state", "closed_cause", "closed_reason", "holds")
# Columns that it sets.
DECIDED = ("rack", "state", "accepts_replicas", "accepts_leadership", "must_empty", "pinned_topics")


def decide_brokers(facts: pd.DataFrame, policy: ClusterPolicy, *, rack_policy: str) -> pd.DataFrame:
    """Brokers of one cluster with their state, and with what they accept under the policy.

    A live broker without replicas is new. A fenced broker may return, so its replicas stay unless the policy drains it.
    A dead broker is always emptied.

    Parameters
    ----------
    facts : DataFrame
        With ``FACTS``. Other columns stay.
    rack_policy : str
        Without "spread", racks are null.

    Returns
    -------
    DataFrame
        With ``DECIDED``.
    """
    ids = facts["broker_id"]
    is_alive, drained = facts["state"] == "alive", ids.isin(policy.drain_brokers)
    state = facts["state"].mask(is_alive & ~facts["holds"].astype(bool), "new").mask(is_alive & drained, "draining")
    may_hold = state.isin(("alive", "new"))
    racks = [rack if rack_policy == "spread" and isinstance(rack, str) else None for rack in facts["rack"]]
    pinned = [_pinned_topics(int(b), rack, policy.pins) for b, rack in zip(ids, facts["rack"], strict=True)]
    return facts.assign(
        rack=pd.Series(racks, facts.index, dtype=object),
        state=state,
        pinned_topics=pd.Series(pinned, facts.index, dtype=object),
        accepts_replicas=may_hold & facts["closed_cause"].isna() & ~ids.isin(policy.exclude_brokers),
        accepts_leadership=may_hold & ~ids.isin(policy.demote_brokers),
        must_empty=_emptied_now(state, drained, policy.only),
    )


def _pinned_topics(broker: int, rack: object, pins: tuple[Pin, ...]) -> list[str]:
    """Patterns of the pins that name a broker or its rack, ascending."""
    return sorted(pin.topics for pin in pins if (broker in pin.brokers if pin.brokers else rack in pin.racks))


def _emptied_now(state: pd.Series, drained: pd.Series, only: str) -> pd.Series:
    """Whether this plan empties a broker.

    With ``only = "racks"`` dead brokers are still emptied: Kafka refuses a list that names one.
    """
    if only == RACKS:
        return state == "dead"
    if only and only != DRAIN:
        return pd.Series(False, index=state.index)
    return state.isin(("draining", "dead")) | drained
