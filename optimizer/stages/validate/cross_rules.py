"""Rules that hold the sources against each other; ``judge`` adds the columns that they name.

A cluster whose sources disagree in more than a few partitions is refused by a figure (``quality_figures``):
single ones are topics that came or went between two tools.
"""

from dataclasses import replace

from optimizer.settings import Settings
from optimizer.stages.shared.sql_words import agree, plural
from optimizer.stages.validate.rule import Rule, Severity, Standing, Stops
from optimizer.stages.validate.rule_table import DESCRIBED, HAS_SCHEME, UNITS_OF_CAPACITIES

PETABYTE_BYTES = 10**15  # no broker, and no replica, holds that much: sizes of another unit do
# A broker that holds or carries so many times its capacity has one of the two in another unit.
FAR_OVER = 50
# Sizes of open files and of capacities that are rounded differ by a little.
A_LITTLE_OVER = 1.02
_HEADERS = "give the whole output of kafka-topics.sh --describe, with the lines that name PartitionCount"
_NAME = "concat(topic, '-', partition)"
_OTHER_TIME = "take all outputs at one time, of one cluster, as a user that may describe every topic"


def _ids(column: str) -> str:
    return f"concat('[', array_join({column}, ','), ']')"


# Of the rows of log directories that can be read.
LOGS = (
    Rule(
        name="log_is_described",
        ok="place > 1 OR is_future OR placed_on IS NOT NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' has a log on broker ', broker_id, ', but no description names the partition')",
        remedy=f"give the whole output of kafka-topics.sh --describe, without --exclude-internal; {_OTHER_TIME}",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="log_is_placed",
        ok="place > 1 OR is_future OR placed_on IS NULL OR is_placed",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({_NAME}, ' has a log on broker ', broker_id, ', which is not in its replicas ', "
            f"{_ids('placed_on')})"
        ),
        remedy=f"a stray log, outputs of different times or of another cluster: {_OTHER_TIME}",
        standing=Standing.CONTRADICTS,
    ),
)

# Of the table ``partition_load``.
REPLICAS_WITH_LOGS = (
    Rule(
        name="replica_has_log",
        ok="size(without_log) = 0",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' is in sync on ', {_ids('without_log')}, ', which tell of no log of it')",
        remedy=f"give kafka-log-dirs.sh --describe without --topic-list; {_OTHER_TIME}",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="size_believable",
        ok=f"size_bytes <= {PETABYTE_BYTES}",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ' has ', size_bytes, ' bytes, over 1 PB')",
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
            f"concat({_NAME}, ' has fewer in sync than it must: ', {_ids('elr')}, ' may lead though not in sync (ELR)')"
        ),
        remedy="bring the replicas back in sync before you move anything",
        standing=Standing.BROKEN,
    ),
)

# Of headers, and of topics that have none.
TOPICS = (
    Rule(
        name="no_partition_missing",
        ok="kind = 'config' OR seen = highest + 1 OR coalesce(seen < partition_count, false)",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason=(
            "concat('topic ', topic, ' has a partition ', highest, ', but ', seen, ' of 0 to ', highest, "
            f"{agree('seen', ' is', ' are')}, ' described')"
        ),
        remedy="give the whole output of kafka-topics.sh --describe",
        standing=Standing.LEFT_OUT,
    ),
    Rule(
        name="partition_count_agrees",
        ok="partition_count IS NULL OR seen <= most_partitions",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason=(
            f"concat('topic ', topic, ' has ', {plural('partition_count', 'partition')}, ' by its header', {DESCRIBED})"
        ),
        remedy=_OTHER_TIME,
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="one_topic_id",
        ok="topic_ids IS NULL OR size(topic_ids) <= 1",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason="concat('topic ', topic, ' has the ids ', array_join(topic_ids, ' and '))",
        remedy=f"it was made anew between two descriptions, or they are of two clusters: {_OTHER_TIME}",
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
        remedy="nothing to do if it is meant; else request one number by [policy] replication_factors",
        standing=Standing.NOTED,
    ),
    Rule(
        name="topic_has_header",
        ok="kind <> 'partition' OR NOT has_headers",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat('topic ', topic, ' has partitions, but no header, as other topics have')",
        remedy="give the whole output of kafka-topics.sh --describe",
        standing=Standing.LEFT_OUT,
    ),
    Rule(
        name="descriptions_have_headers",
        ok="is_complete_by_header OR NOT is_named_elsewhere",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "'no topic of the description has its header line, so topics and partitions may be missing: only those "
            "that log directories or metrics name are noticed'"
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
            "'no topic of the description has its header line, and no other source names partitions: topics and "
            "partitions may be missing'"
        ),
        remedy=(
            f"{_HEADERS}; or add kafka-log-dirs.sh --describe; or plan on it as it is by [quality] "
            "allow_headless_describe = true"
        ),
        standing=Standing.BROKEN,
    ),
    Rule(
        name="configured_topic_described",
        ok="kind <> 'config' OR seen > 0",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat('topic ', topic, ' has configs, but no partition of it is described')",
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
        reason=(
            "concat('config ', name, ' of ', entity_type, ' ', entity_name, ' stands ', times, ' times in the file')"
        ),
        remedy="give the whole output of kafka-configs.sh --describe, once: a heading may be missing",
    ),
)

CLUSTER_IDS = (
    Rule(
        name="one_cluster_id",
        ok="size(cluster_ids) <= 1",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason=(
            "concat('this is of cluster ', kafka_cluster_id, '; the sources name ', array_join(cluster_ids, ' and '))"
        ),
        remedy="keep the files of one cluster in a folder",
        standing=Standing.CONTRADICTS,
    ),
)

# Of everything that is known about a broker, before capacities.
BROKERS = (
    Rule(
        name="listed_tells_of_directories",
        ok="NOT only_listed OR broker_id > all_only_listed[0]",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "if(size(all_only_listed) = 1, concat('broker ', broker_id, ' is listed, but holds no replica and tells of "
            "no directory, as others do: is it a controller?'), concat('brokers ', array_join(all_only_listed, ', '), "
            "' are listed, but hold no replica and tell of no directory, as others do: are they controllers?'))"
        ),
        remedy=(
            "leave KRaft controllers out of the list of brokers; if it is a broker, check that it runs, and take the "
            "outputs again"
        ),
        standing=Standing.BROKEN,
    ),
    Rule(
        name="holder_tells_of_directories",
        ok="state <> 'alive' OR partitions = 0 OR answered_at IS NOT NULL OR NOT others_tell",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat('broker ', broker_id, ' holds ', {plural('partitions', 'replica')}, "
            "', but tells of no directory, as others do')"
        ),
        remedy="give kafka-log-dirs.sh --describe of all brokers: a failed directory would stay unseen",
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
            "CASE WHEN in_sync > 0 THEN concat('is in sync in ', in_sync) END, "
            "CASE WHEN answered_at IS NOT NULL THEN concat('tells of its directories in ', answered_at.source) END))"
        ),
        remedy=(
            "give the whole list of brokers, taken together with the other outputs; a broker that is gone leads "
            "nothing, "
            "is in sync nowhere and tells of no directory"
        ),
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="in_sync_somewhere",
        ok="NOT in_sync_nowhere",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat('broker ', broker_id, ' is alive, but in sync for none of the partitions that it holds: ', settled)"
        ),
        remedy="look at its log: it receives no replica until it is in sync",
        standing=Standing.BROKEN,
    ),
    Rule(
        name="not_cordoned",
        ok="size(cordoned) = 0",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat('broker ', broker_id, ' has cordoned directories: ', array_join(cordoned, ', '), "
            "CASE WHEN is_cordoned THEN '; it receives no replica' ELSE '; the others receive replicas' END)"
        ),
        remedy="delete its config cordoned.log.dirs when it may receive replicas again",
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
        remedy="mend the disk: until then the broker receives no replica",
        standing=Standing.BROKEN,
    ),
)


def _capacity(resource: str, *, unit: str, held: str, capacity: str) -> tuple[Rule, Rule]:
    """Refused far over a capacity, told a little over it."""
    told = (
        f"concat('broker ', broker_id, ' {unit} ', {held}, ', its capacity is ', {capacity}, "
        "coalesce(concat(' (', capacity_source, coalesce(concat(': ', capacity_as_written), ''), ')'), '')"
    )
    likely = (
        f"CASE WHEN {held} >= 5000 * {capacity} THEN '1,000,000 (10^6, or 2^20)' ELSE '1,000 (or 1,024)' END, ' times'"
    )
    return (
        Rule(
            name=f"{resource}_in_one_unit",
            ok=f"{capacity} IS NULL OR {held} < {FAR_OVER} * {capacity}",
            severity=Severity.WARNING,
            stops=Stops.ANY,
            reason=f"{told}, ': one of them is likely in another unit, by ', {likely})",
            remedy=UNITS_OF_CAPACITIES,
            standing=Standing.CONTRADICTS,
        ),
        Rule(
            name=f"{resource}_within_capacity",
            ok=f"{capacity} IS NULL OR {held} <= {A_LITTLE_OVER} * {capacity} OR {held} >= {FAR_OVER} * {capacity}",
            severity=Severity.WARNING,
            stops=Stops.NEVER,
            reason=f"{told})",
            remedy="look whether capacity and measures are of the same broker and time",
            standing=Standing.CONTRADICTS,
        ),
    )


# Of the table ``brokers``, with what each of them holds.
CAPACITIES = (
    Rule(
        name="disks_have_capacity",
        ok="uncounted IS NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat('broker ', broker_id, ' has directories without a known capacity: ', array_join(uncounted, ', '), "
            "'; its disks count ', disk_capacity_bytes, ' bytes')"
        ),
        remedy="give a capacity for each of its directories, or one for the broker",
        standing=Standing.LEFT_OUT,
    ),
    *_capacity("disk", unit="holds bytes:", held="held_bytes", capacity="disk_capacity_bytes"),
    *_capacity("in", unit="takes in bytes per second:", held="held_in_bytes_per_s", capacity="in_capacity_bytes_per_s"),
    *_capacity(
        "out", unit="gives out bytes per second:", held="held_out_bytes_per_s", capacity="out_capacity_bytes_per_s"
    ),
)


def topics(settings: Settings) -> tuple[Rule, ...]:
    """Rules of topics; a description without headers stops nothing where the settings allow it."""
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
