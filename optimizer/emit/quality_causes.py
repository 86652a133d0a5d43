"""Which failed checks of the input may follow from others, and which figures count the rows of rules: names alone.

The rules themselves need Spark (``optimizer.stages.validate``); a test compares their names with those here.
"""

from sources.record import NOT_STATE, TOOL_ERROR, TWO_ANSWERS, UNREADABLE_FILE

# Rules of the quarantine about unread input, by the figure that counts their rows.
UNREAD_RULES = {
    "unreadable_files": UNREADABLE_FILE,
    "tool_errors": TOOL_ERROR,
    "wishes": NOT_STATE,
    "contradicting_answers": TWO_ANSWERS,
}
# Figures that count broken rows of a rule; the rule itself does not refuse the run.
FIGURES_OF_RULES = {
    "log_is_described": "undescribed_partitions",
    "configured_topic_described": "undescribed_topics",
    "log_is_placed": "misplaced_partitions",
    "replica_has_log": "misplaced_partitions",
}
SHARE = "quarantined_share"  # figure that counts every row of severity error
# Rules that quarantine a partition: then the partition is missing, and other rules about it may break.
OF_PLACEMENTS = frozenset(
    {
        "broker_ids_legal",
        "no_conflicting_snapshot",
        "no_repeated_broker",
        "placement_readable",
        "replicas_not_empty",
        "target_not_empty",
        "topic_name_legal",
    }
)
# Rules of findings about input that may have had partitions of which the plan knows nothing.
OF_LEFT_OUT = OF_PLACEMENTS | {"readable", UNREADABLE_FILE, TOOL_ERROR, "no_partition_missing"}
# Rules that quarantine rows, which count in the share.
QUARANTINING = OF_PLACEMENTS | {
    "broker_id_legal",
    "capacity_agrees",
    "capacity_in_range",
    "load_agrees",
    "load_in_range",
    "load_of_known_partition",
    "log_dir_readable",
    "log_dir_size_in_range",
    "metrics_of_known_partition",
    "offset_readable",
    "offsets_in_order",
    "one_rack_a_broker",
    "reassignment_readable",
    "replica_size_in_range",
    "replica_size_readable",
    "size_believable",
}
_OF_LOST_PARTITIONS = frozenset(
    {
        SHARE,
        "all_partitions_described",
        "no_partition_missing",
        "load_of_known_partition",
        "metrics_of_known_partition",
        "undescribed_partitions",
        "misplaced_partitions",
        "partitions",
    }
)
# Rules that may be broken only because a file, or a part of it, was not read.
_OF_UNREAD = _OF_LOST_PARTITIONS - {"misplaced_partitions"} | {
    "size_known",
    "rates_known",
    "size_coverage_by_rates",
    "rate_coverage_by_bytes",
    "undescribed_topics",
    "unlisted_is_silent",
    "rack_known",
}


def consequences_of(broken: set[str]) -> set[str]:
    """Broken rules that may be consequences: of input that was not read, or of quarantined rows."""
    not_read = broken & set(UNREAD_RULES)
    if not_read:
        return broken & _OF_UNREAD
    if broken & OF_PLACEMENTS:
        return broken & _OF_LOST_PARTITIONS
    return broken & {SHARE} if broken & QUARANTINING else set()
