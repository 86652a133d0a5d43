"""Topic limits: how many replicas of a topic one broker may hold, and how many it may lead."""

import numpy as np
import pandas as pd

from optimizer.domain import Floats
from optimizer.planning.arrays import to_brokers
from optimizer.settings import Policy
from optimizer.solve.rules.racks import busiest_share, live_rack_sizes

SHARE_UNITS = 10**9  # shares are summed as integers, so that the order of rows does not matter
DIGITS = 6  # after the decimal point: an error of floating point must not round a share up
COLUMNS = ("topic_most_replicas", "topic_most_leaders")


def topic_mosts(counts: pd.DataFrame, hosts: pd.DataFrame, policy: Policy) -> pd.DataFrame:
    """The limits of each topic of one cluster, with columns topic and ``COLUMNS``; null without a policy.

    Parameters
    ----------
    counts : DataFrame
        Partitions without a pin: how many (``partitions``) by topic and replication_factor.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    """
    rack_sizes = live_rack_sizes(to_brokers(hosts))
    factors = counts["replication_factor"]
    share = {int(f): round(busiest_share(int(f), rack_sizes) * SHARE_UNITS) for f in factors.unique()}
    weighted = counts.assign(share=factors.map(share).astype(np.int64) * counts["partitions"])
    sums = weighted.groupby("topic", sort=True)[["share", "partitions"]].sum()
    may_lead = int(hosts["accepts_leadership"].sum())
    fair = (sums["share"] / SHARE_UNITS, sums["partitions"] / may_lead if may_lead else None)
    spreads = (policy.topic_spread, policy.topic_leader_spread)
    mosts = {name: _most(spread, share) for name, spread, share in zip(COLUMNS, spreads, fair, strict=True)}
    return pd.DataFrame(mosts, index=sums.index).astype("Int64").reset_index()


def _most(spread: float, fair_share: pd.Series | None) -> Floats | None:
    """``spread`` times the fair share, rounded up (formulas 9 and 22 of docs/solver.md); None without a spread or
    without a broker."""
    return (
        None
        if not spread or fair_share is None
        else np.ceil(np.round(spread * fair_share.to_numpy(dtype=np.float64), DIGITS))
    )
