"""All rules of a policy for one cluster in this process: facts become rows of ``instance`` and ``instance_brokers``."""

import pandas as pd

from optimizer.errors import BallastError
from optimizer.kafka.versions import completion_rule
from optimizer.planning.policy.brokers import decide_brokers
from optimizer.planning.policy.partitions import decide_partitions
from optimizer.planning.policy.refusals import known_of, unknown_names, unmet_by_brokers
from optimizer.planning.policy.topic_mosts import COLUMNS as MOSTS
from optimizer.planning.policy.topic_mosts import topic_mosts
from optimizer.planning.policy.topics import conflicting_factors
from optimizer.settings import Settings


def instance_of(
    partitions: pd.DataFrame, brokers: pd.DataFrame, settings: Settings, cluster_id: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of ``instance`` and of ``instance_brokers``, with a column ``cluster_id``.

    Parameters
    ----------
    partitions : DataFrame
        ``partitions.FACTS`` and the other columns of ``instance`` that no policy sets.
    brokers : DataFrame
        ``brokers.FACTS``, capacities and ``log_dirs``.

    Raises
    ------
    ConfigError
        When no plan can meet the policy.
    """
    requests, policy = settings.cluster_policies()[cluster_id], settings.policy
    hosts = decide_brokers(brokers, requests, rack_policy=policy.rack_policy)
    refusals: tuple[BallastError | None, ...] = (
        unknown_names(cluster_id, known_of(brokers), requests),
        unmet_by_brokers(cluster_id, hosts, requests),
        conflicting_factors(cluster_id, partitions["topic"].unique(), requests),
    )
    for refusal in filter(None, refusals):
        raise refusal
    completion = completion_rule(settings.kafka_versions()[cluster_id])
    decided = decide_partitions(partitions, hosts, requests, policy, completion)
    if policy.topic_spread or policy.topic_leader_spread:
        unpinned = decided[decided["pinned_brokers"].isna()]
        counts = unpinned.groupby(["topic", "replication_factor"], as_index=False).size()
        mosts = topic_mosts(counts.rename(columns={"size": "partitions"}), hosts, policy)
        decided = decided.merge(mosts, on="topic", how="left")
        decided.loc[decided["pinned_brokers"].notna(), list(MOSTS)] = pd.NA
    else:
        decided = decided.assign(**dict.fromkeys(MOSTS))
    return decided.assign(cluster_id=cluster_id), hosts.assign(cluster_id=cluster_id)
