"""Rules that compare the sources with each other; ``judge`` adds the columns that they use.

If the sources of a cluster disagree about more than a few partitions, a figure refuses the cluster
(``quality_figures``). A few may differ, because topics are created or deleted between two tools.
"""

from dataclasses import replace

from optimizer.settings import Settings
from optimizer.stages.shared.sql_words import agree, plural
from optimizer.stages.validate.rule import Rule, Severity, Standing, Stops
from optimizer.stages.validate.rule_table import DESCRIBED, HAS_SCHEME, UNITS_OF_CAPACITIES

PETABYTE_BYTES = 10**15  # no replica is that large: such a size has a wrong unit
# A load this many times over the capacity: one of the two has a wrong unit.
FAR_OVER = 50
# Open files and rounded capacities make a small difference.
A_LITTLE_OVER = 1.02
_HEADERS = "give the whole output of kafka-topics.sh --describe, with the lines that name PartitionCount"
_NAME = "concat(topic, '-', partition)"
_OTHER_TIME = "take all outputs at the same time, from one cluster, as a user that may describe every topic"


def _ids(column: str) -> str:
    return f"concat('[', array_join({column}, ','), ']')"


# For readable rows of log directories.
LOGS = (
    Rule(
        name="log_is_described",
        ok="rank > 1 OR is_future OR placed_on IS NOT NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' has a log on broker ', broker_id, ', but no description names the partition')",
        remedy=f"give the whole output of kafka-topics.sh --describe, without --exclude-internal; {_OTHER_TIME}",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="log_is_placed",
        ok="rank > 1 OR is_future OR placed_on IS NULL OR is_placed",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({_NAME}, ' has a log on broker ', broker_id, ', which is not in its replicas ', "
            f"{_ids('placed_on')})"
        ),
        remedy=f"{_OTHER_TIME}; if the log stays there, it is a stray log of this broker",
        standing=Standing.CONTRADICTS,
    ),
)

# For the table ``partition_load``.
REPLICAS_WITH_LOGS = (
    Rule(
        name="replica_has_log",
        ok="size(without_log) = 0",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' is in sync on brokers ', {_ids('without_log')}, ', which report no log of it')",
        remedy=f"give kafka-log-dirs.sh --describe without --topic-list; {_OTHER_TIME}",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="size_believable",
        ok=f"size_bytes <= {PETABYTE_BYTES}",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ' has ', size_bytes, ' bytes, more than 1 PB')",
        remedy="give sizes in bytes, or name the unit in the column: size_kb, size_mib, ...",
    ),
)

PLACEMENTS = (
    Rule(
        name="no_eligible_leader_outside",
        ok="coalesce(size(elr), 0) <= 0",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({_NAME}, ' has fewer in-sync replicas than min.insync.replicas: brokers ', {_ids('elr')}, "
            "' may become leader without being in sync (ELR)')"
        ),
        remedy="wait until the replicas are in sync again before you move anything",
        standing=Standing.BROKEN,
    ),
)

# For headers, and for topics without a header.
TOPICS = (
    Rule(
        name="no_partition_missing",
        ok="kind = 'config' OR described = highest + 1 OR coalesce(described < partition_count, false)",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason=(
            "concat('topic ', topic, ' has a partition ', highest, ', but only ', described, ' of partitions 0 to ', "
            f"highest, {agree('described', ' is', ' are')}, ' described')"
        ),
        remedy="give the whole output of kafka-topics.sh --describe",
        standing=Standing.LEFT_OUT,
    ),
    Rule(
        name="partition_count_agrees",
        ok="partition_count IS NULL OR described <= most_partitions",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason=(
            f"concat('topic ', topic, ' has ', {plural('partition_count', 'partition')}, ' in its header', {DESCRIBED})"
        ),
        remedy=_OTHER_TIME,
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="one_topic_id",
        ok="topic_ids IS NULL OR size(topic_ids) <= 1",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason="concat('topic ', topic, ' has several topic ids: ', array_join(topic_ids, ' and '))",
        remedy=(
            "the topic was deleted and created again between two descriptions, or they are from two clusters: "
            f"{_OTHER_TIME}"
        ),
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="one_replication_factor",
        ok="coalesce(size(factors), 0) <= 1 OR nth_of_topic > 1",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat('topic ', topic, ' has partitions with different numbers of replicas: ', array_join(transform("
            f"factors, f -> concat(f.replicas, ' in ', {plural('f.partitions', 'partition')}, "
            "' (the first is ', topic, '-', f.first, ')')), ', '))"
        ),
        remedy="nothing to do if this is intended; otherwise set [policy] replication_factors",
        standing=Standing.NOTED,
    ),
    Rule(
        name="topic_has_header",
        ok="kind <> 'partition' OR NOT has_headers",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat('topic ', topic, ' has partitions, but no header line; other topics have one')",
        remedy="give the whole output of kafka-topics.sh --describe",
        standing=Standing.LEFT_OUT,
    ),
    Rule(
        name="descriptions_have_headers",
        ok="is_complete_by_header OR NOT is_named_elsewhere",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "'the description has no header lines, so topics and partitions may be missing: only those in log "
            "directories or metrics are noticed'"
        ),
        remedy=_HEADERS,
        standing=Standing.BROKEN,
    ),
    Rule(
        name="completeness_known",
        ok="is_complete_by_header OR is_named_elsewhere",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason=(
            "'the description has no header lines, and no other source names partitions: topics and partitions may be "
            "missing'"
        ),
        remedy=(
            f"{_HEADERS}; or add kafka-log-dirs.sh --describe; or, to use it as it is, set [quality] "
            "allow_headless_describe = true"
        ),
        standing=Standing.BROKEN,
    ),
    Rule(
        name="configured_topic_described",
        ok="kind <> 'config' OR described > 0",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat('topic ', topic, ' has configs, but none of its partitions is described')",
        remedy=f"give the whole output of kafka-topics.sh --describe, without --exclude-internal; {_OTHER_TIME}",
        standing=Standing.CONTRADICTS,
    ),
)

CONFIGS = (
    Rule(
        name="config_told_once",
        ok="times = 1",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=("concat('config ', name, ' of ', entity_type, ' ', entity_name, ' is in the file ', times, ' times')"),
        remedy="run kafka-configs.sh --describe again and give its whole output once: a heading may be missing",
    ),
)

CLUSTER_IDS = (
    Rule(
        name="one_cluster_id",
        ok="size(cluster_ids) <= 1",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason=(
            "concat('this source is from Kafka cluster ', kafka_cluster_id, ', but the sources name several: ', "
            "array_join(cluster_ids, ' and '))"
        ),
        remedy="put only the files of one cluster into a folder",
        standing=Standing.CONTRADICTS,
    ),
)

# For brokers with all that is known about them, except capacities.
BROKERS = (
    Rule(
        name="listed_tells_of_directories",
        ok="NOT only_listed OR broker_id > all_only_listed[0]",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "if(size(all_only_listed) = 1, concat('broker ', broker_id, ' is listed, but holds no replica and reports "
            "no log directory: is it a controller?'), concat('brokers ', array_join(all_only_listed, ', '), "
            "' are listed, but hold no replica and report no log directory: are they controllers?'))"
        ),
        remedy=(
            "remove KRaft controllers from the list of brokers; if it is a broker, check that it runs, and collect the "
            "inputs again"
        ),
        standing=Standing.BROKEN,
    ),
    Rule(
        name="holder_tells_of_directories",
        ok="NOT holds_silently OR broker_id > all_holds_silently[0]",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat(if(size(all_holds_silently) = 1, concat('broker ', broker_id, ' holds ', "
            f"{plural('partitions', 'replica')}, ', but reports'), concat('brokers ', array_join(all_holds_silently, "
            "', '), ' hold replicas, but report')), ' no log directory, unlike other brokers')"
        ),
        remedy="run kafka-log-dirs.sh --describe for all brokers: otherwise a failed directory is not noticed",
        standing=Standing.LEFT_OUT,
    ),
    Rule(
        name="configs_of_all_brokers",
        ok="NOT lacks_configs OR broker_id > all_lacks_configs[0]",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat('the configs of ', if(size(all_lacks_configs) = 1, 'broker ', 'brokers '), "
            "array_join(all_lacks_configs, ', '), ' are not given: topics without their own min.insync.replicas count "
            "with ', most_min_isr, ', the largest of the other brokers')"
        ),
        remedy="run kafka-configs.sh --describe --all --entity-type brokers for all brokers",
        standing=Standing.LEFT_OUT,
    ),
    Rule(
        name="unlisted_is_silent",
        ok="is_registered OR (leads = 0 AND in_sync = 0 AND answered_at IS NULL)",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason=(
            "concat('broker ', broker_id, ' is in no list of brokers, but ', concat_ws(', ', "
            f"CASE WHEN leads > 0 THEN concat('leads ', {plural('leads', 'partition')}) END, "
            f"CASE WHEN in_sync > 0 THEN concat('is in sync in ', {plural('in_sync', 'partition')}) END, "
            "CASE WHEN answered_at IS NOT NULL THEN concat('reports its directories in ', answered_at.source) END))"
        ),
        remedy=(
            "give the whole list of brokers, taken at the same time as the other outputs; a removed broker does not "
            "lead, is not in sync and reports no directory"
        ),
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="in_sync_somewhere",
        ok="NOT in_sync_nowhere",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat('broker ', broker_id, ' is alive, but in sync in none of its ', {plural('settled', 'partition')})"
        ),
        remedy="check the log of the broker: it receives no replica until it is in sync",
        standing=Standing.BROKEN,
    ),
    Rule(
        name="not_cordoned",
        ok="size(cordoned) = 0",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat('broker ', broker_id, ' has cordoned directories: ', array_join(cordoned, ', '), "
            "CASE WHEN is_cordoned THEN '; it receives no replica' ELSE '; its other directories receive replicas' END)"
        ),
        remedy="when it may receive replicas again: ./ballast uncordon if a plan cordoned it, else delete its config "
        "cordoned.log.dirs",
        standing=Standing.NOTED,
    ),
)

LOG_DIRS = (
    Rule(
        name="log_dir_healthy",
        ok=f"error IS NULL OR NOT is_newest OR {HAS_SCHEME}",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat('directory ', log_dir, ' of broker ', broker_id, ' has failed: ', error)",
        remedy="repair the disk: until then the broker receives no replica",
        standing=Standing.BROKEN,
    ),
)


def _capacity(resource: str, *, verb: str, unit: str, held: str, capacity: str) -> tuple[Rule, Rule]:
    """Two rules: a load far over the capacity refuses the run; a load a little over it is reported."""
    comparison = (
        f"concat('broker ', broker_id, ' {verb} ', {held}, ' {unit}, but its capacity is ', {capacity}, "
        "coalesce(concat(' (', capacity_source, coalesce(concat(': ', capacity_as_written), ''), ')'), '')"
    )
    factor = f"CASE WHEN {held} >= 5000 * {capacity} THEN '1,000,000 (10^6, or 2^20)' ELSE '1,000 (or 1,024)' END"
    return (
        Rule(
            name=f"{resource}_in_one_unit",
            ok=f"{capacity} IS NULL OR {held} < {FAR_OVER} * {capacity}",
            severity=Severity.WARNING,
            stops=Stops.ANY,
            reason=f"{comparison}, ': one of them probably has a wrong unit, by a factor of ', {factor})",
            remedy=UNITS_OF_CAPACITIES,
            standing=Standing.CONTRADICTS,
        ),
        Rule(
            name=f"{resource}_within_capacity",
            ok=f"{capacity} IS NULL OR {held} <= {A_LITTLE_OVER} * {capacity} OR {held} >= {FAR_OVER} * {capacity}",
            severity=Severity.WARNING,
            stops=Stops.NEVER,
            reason=f"{comparison})",
            remedy="check that the capacity is correct, and that sizes, rates and capacity are from the same time",
            standing=Standing.CONTRADICTS,
        ),
    )


# For the table ``brokers``, with the load of each broker.
CAPACITIES = (
    Rule(
        name="disks_have_capacity",
        ok="uncounted IS NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat('broker ', broker_id, ' has directories without a known capacity: ', array_join(uncounted, ', '), "
            "'; only its other directories count, ', disk_capacity_bytes, ' bytes')"
        ),
        remedy="give a capacity for each of its directories, or one for the broker",
        standing=Standing.LEFT_OUT,
    ),
    *_capacity("disk", verb="stores", unit="bytes", held="held_bytes", capacity="disk_capacity_bytes"),
    *_capacity(
        "in",
        verb="receives",
        unit="bytes per second",
        held="held_in_bytes_per_s",
        capacity="in_capacity_bytes_per_s",
    ),
    *_capacity(
        "out",
        verb="sends",
        unit="bytes per second",
        held="held_out_bytes_per_s",
        capacity="out_capacity_bytes_per_s",
    ),
)


def topics(settings: Settings) -> tuple[Rule, ...]:
    """Rules of topics; with ``allow_headless_describe`` a description without headers does not refuse the run."""
    if not settings.quality.allow_headless_describe:
        return TOPICS
    return tuple(replace(rule, stops=Stops.NEVER) if rule.name == "completeness_known" else rule for rule in TOPICS)


RULES = (
    *LOGS,
    *REPLICAS_WITH_LOGS,
    *PLACEMENTS,
    *TOPICS,
    *CONFIGS,
    *CLUSTER_IDS,
    *BROKERS,
    *LOG_DIRS,
    *CAPACITIES,
)
