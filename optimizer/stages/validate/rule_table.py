"""The data-quality rules, by the rows that they judge; ``judge`` adds the columns that their SQL uses."""

from dataclasses import replace

from optimizer.settings import Settings
from optimizer.stages.shared.records import LARGEST
from optimizer.stages.shared.sql_words import agree, plural
from optimizer.stages.validate.rule import Rule, Severity, Standing, Stops
from sources.offsets import EARLIEST, EARLIEST_LOCAL, LATEST

INT32_MAX = 2**31 - 1  # Kafka's broker and partition ids are ints
_NAME = "concat(topic, '-', partition)"
# SQL: the number of a topic's partitions that are described.
DESCRIBED = f"', but ', described, {agree('described', ' is', ' are')}, ' described'"
_REPLICAS = "concat('[', array_join(replicas, ','), ']')"
# A directory such as remote://bucket is object storage, not a disk; a single letter before the colon is a drive.
HAS_SCHEME = "coalesce(log_dir RLIKE '^[A-Za-z][A-Za-z0-9+.-]+://', false)"


def _in_range(column: str, *, least: int = 0) -> str:
    value = f"try_cast({column} AS DECIMAL(38,0))"
    return f"{column} IS NULL OR coalesce({value} BETWEEN {least} AND {LARGEST}, false)"


PLACEMENTS = (
    Rule(
        name="placement_readable",
        ok=f"topic IS NOT NULL AND partition BETWEEN 0 AND {INT32_MAX} AND replicas IS NOT NULL",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason="'the topic, partition or replicas are missing or out of range'",
        remedy="run kafka-topics.sh --describe again",
    ),
    Rule(
        name="topic_name_legal",
        ok="topic IS NULL OR (topic RLIKE '^[a-zA-Z0-9._-]{1,249}$' AND topic NOT IN ('.', '..'))",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason="concat('Kafka does not allow a topic named ', topic)",
        remedy="correct the file: a name has at most 249 letters, digits, dots, dashes and underscores",
    ),
    Rule(
        name="replicas_not_empty",
        ok="replicas IS NULL OR size(replicas) > 0",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ' has no replica (replication factor 0)')",
        remedy="run kafka-topics.sh --describe again: in Kafka every partition has a replica",
    ),
    Rule(
        name="no_repeated_broker",
        ok="replicas IS NULL OR size(array_distinct(replicas)) = size(replicas)",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' name a broker twice')",
        remedy="correct the list: Kafka refuses a repeated broker",
    ),
    Rule(
        name="broker_ids_legal",
        ok=f"replicas IS NULL OR forall(replicas, id -> id BETWEEN 0 AND {INT32_MAX})",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' have an impossible broker id')",
        remedy=f"correct the list: broker ids are 0 to {INT32_MAX}; -1 means no broker",
    ),
    Rule(
        name="target_not_empty",
        ok="replicas IS NULL OR size(replicas) = 0 OR size(array_except(replicas, removing)) > 0",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ': the reassignment in flight removes every replica')",
        remedy="run kafka-topics.sh --describe again",
    ),
    Rule(
        name="isr_within_replicas",
        ok="size(array_except(isr, replicas)) <= 0",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ': ISR [', array_join(isr, ','), '] is not within replicas ', {_REPLICAS})",
        remedy=(
            "run kafka-topics.sh --describe again when no reassignment runs; the plan ignores ISR brokers outside the "
            "replicas"
        ),
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="leader_within_replicas",
        ok="leader IS NULL OR array_contains(replicas, leader)",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ': leader ', leader, ' is not within replicas ', {_REPLICAS})",
        remedy="run kafka-topics.sh --describe again; until then the partition counts as leaderless and does not move",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="has_leader",
        ok="leader IS NOT NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' has no leader')",
        remedy="start a broker that holds a replica; a partition without a leader can't be copied, so it does not move",
        standing=Standing.BROKEN,
    ),
)

# For rows that meet the rules above.
SNAPSHOTS = (
    Rule(
        name="no_conflicting_snapshot",
        ok="NOT in_conflict",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=(
            f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' here, but [', array_join(other.replicas, ','), '] in ', "
            "other.source, ':', other.line)"
        ),
        remedy="keep only the newest description of the cluster",
    ),
    Rule(
        name="no_duplicate_snapshot",
        ok="rank = 1 OR kind <> first_kind OR in_conflict OR NOT is_same",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' is described again; ', first_source, ' has the same description')",
        remedy="keep only one description of the cluster",
    ),
    Rule(
        name="snapshots_alike",
        ok="kind <> first_kind OR in_conflict OR is_same",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({_NAME}, ': leader ', coalesce(leader, 'none'), ', ISR [', array_join(isr, ','), '] here, but "
            "leader ', coalesce(first_leader, 'none'), ', ISR [', array_join(first_isr, ','), '] in ', "
            "first_source, ':', "
            "first_line, ', which is used: its ISR is not larger')"
        ),
        remedy="keep only the newest description of the cluster",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="assignment_agrees",
        ok="kind = first_kind OR replicas = first_replicas",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' in the assignment document, but [', "
            "array_join(first_replicas, ','), '] in the description, which is used')"
        ),
        remedy="leave documents of other plans out of the folder",
        standing=Standing.CONTRADICTS,
    ),
)

BROKERS = (
    Rule(
        name="broker_id_legal",
        ok=f"broker_id BETWEEN 0 AND {INT32_MAX}",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason="concat('broker id ', coalesce(broker_id, 'null'), ' is impossible')",
        remedy=f"correct the list of brokers: ids are 0 to {INT32_MAX}",
    ),
    Rule(
        name="one_rack_a_broker",
        ok="size(racks) <= 1",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason="concat('broker ', broker_id, ' is listed with several racks: ', array_join(racks, ', '))",
        remedy="keep one rack for each broker",
    ),
)

# For the table ``brokers``.
KNOWN_BROKERS = (
    Rule(
        name="broker_registered",
        ok="is_registered",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat('broker ', broker_id, ' is in ', {plural('partitions', 'replica list')}, "
            "', but is not registered')"
        ),
        remedy=(
            "start the broker, or add it to the list of brokers; until then it counts as dead, and the plan moves its "
            "replicas away"
        ),
        standing=Standing.BROKEN,
    ),
    Rule(
        name="rack_known",
        ok="rack IS NOT NULL OR NOT racks_used OR NOT is_registered",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason="concat('broker ', broker_id, ' has no rack, but other brokers have one')",
        remedy='set broker.rack on every broker, or set [policy] rack_policy = "none"',
    ),
)

LOG_DIRS = (
    Rule(
        name="log_dir_readable",
        ok=f"broker_id BETWEEN 0 AND {INT32_MAX} AND log_dir IS NOT NULL",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason="'the broker or log directory is missing or out of range'",
        remedy="run kafka-log-dirs.sh again",
    ),
    Rule(
        name="log_dir_size_in_range",
        ok=_in_range("total_bytes"),
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason="concat('directory ', log_dir, ' of broker ', broker_id, ' has an impossible size: ', total_bytes)",
        remedy=f"give the size in bytes, from 0 to {LARGEST}",
    ),
    Rule(
        name="log_dir_is_disk",
        ok=f"NOT {HAS_SCHEME}",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat(log_dir, ' of broker ', broker_id, ' is not a disk: its content does not count')",
        remedy="nothing to do: only the other directories count for sizes and capacities",
        standing=Standing.NOTED,
    ),
)

REPLICA_SIZES = (
    Rule(
        name="replica_size_readable",
        ok=(
            f"broker_id BETWEEN 0 AND {INT32_MAX} AND topic IS NOT NULL AND partition BETWEEN 0 AND {INT32_MAX} "
            "AND log_dir IS NOT NULL"
        ),
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason="'the broker, directory, topic or partition is missing or out of range'",
        remedy="run kafka-log-dirs.sh again",
    ),
    Rule(
        name="replica_size_in_range",
        ok=f"size_bytes IS NOT NULL AND ({_in_range('size_bytes')})",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason=(
            f"concat({_NAME}, ' on broker ', broker_id, ': ', "
            "coalesce(concat('size ', size_bytes, ' is out of range'), 'the size is missing'))"
        ),
        remedy=f"give the size in bytes, from 0 to {LARGEST}",
    ),
)

# For rows that meet the rules above.
PLACED_SIZES = (
    Rule(
        name="replica_size_once",
        ok="rank = 1 OR (source = first_source AND log_dir <> first_log_dir)",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' on broker ', broker_id, ' has a size in ', first_source, ', too')",
        remedy="keep only the newest output of kafka-log-dirs.sh, which is used",
    ),
    Rule(
        name="replica_in_one_directory",
        ok="rank = 1 OR source <> first_source OR log_dir = first_log_dir",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({_NAME}, ' on broker ', broker_id, ' is in two directories of one output, ', first_log_dir, "
            "' and ', log_dir, '; the larger size is used')"
        ),
        remedy="run kafka-log-dirs.sh again; if it still shows both, delete the directory that the broker does not use",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="no_move_between_disks",
        ok="rank > 1 OR NOT is_future",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({plural('moving', 'replica')}, {agree('moving', ' moves', ' move')}, "
            f"' between disks of a broker, ', moving_bytes, ' bytes: ', {_NAME}, ' on broker ', broker_id, "
            "' to ', log_dir)"
        ),
        remedy=(
            "wait until these moves end, because the plan uses the same disks; its documents name no directory for "
            "these replicas"
        ),
        standing=Standing.NOTED,
    ),
)

# In Cruise Control's files -1 means all brokers. A given capacity must be positive.
_CAPACITY_IN_RANGE = (
    f"broker_id BETWEEN -1 AND {INT32_MAX} AND ({_in_range('disk_bytes', least=1)}) "
    f"AND ({_in_range('in_bytes_per_s', least=1)}) AND ({_in_range('out_bytes_per_s', least=1)})"
)
UNITS_OF_CAPACITIES = (
    "correct the unit: Cruise Control's capacity.json counts DISK in MB, NW_IN and NW_OUT in KB per second; the column "
    "of a CSV names its unit (disk_bytes, disk_gb, ...)"
)
CAPACITIES = (
    Rule(
        name="capacity_in_range",
        ok=f"{HAS_SCHEME} OR ({_CAPACITY_IN_RANGE})",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=(
            "concat('capacity of broker ', coalesce(broker_id, 'null'), ': ', coalesce(doubt, "
            "concat('disk ', coalesce(disk_bytes, 'none'), "
            "', in ', coalesce(in_bytes_per_s, 'none'), ', out ', coalesce(out_bytes_per_s, 'none'), "
            "coalesce(concat(' bytes, written as ', as_written), ''))))"
        ),
        remedy=f"give 1 to {LARGEST} bytes, and leave out unknown capacities; {UNITS_OF_CAPACITIES}",
    ),
    Rule(
        name="capacity_believable",
        ok=f"{HAS_SCHEME} OR doubt IS NULL OR NOT coalesce({_CAPACITY_IN_RANGE}, false)",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat('capacity of broker ', broker_id, ': ', doubt)",
        remedy=UNITS_OF_CAPACITIES,
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="capacity_agrees",
        ok="variants = 1",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=(
            "concat('broker ', broker_id, coalesce(concat(', directory ', log_dir), ''), ' has ', variants, "
            "' different capacities')"
        ),
        remedy="keep one capacity for each broker and directory",
    ),
    Rule(
        name="capacity_of_known_broker",
        ok="broker_id = -1 OR is_known",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat('there is a capacity for broker ', broker_id, ', but the cluster does not have this broker')",
        remedy="remove the capacity, or correct the broker id",
        standing=Standing.LEFT_OUT,
    ),
    Rule(
        name="capacity_of_known_log_dir",
        ok="is_matched",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"if({HAS_SCHEME}, "
            "concat('the capacity of broker ', broker_id, ' names ', log_dir, ', which is not a disk'), "
            "concat(if(broker_id = -1, concat('no broker has the directory ', log_dir, ' of the default capacity; they "
            "have '), concat('broker ', broker_id, ' has no directory ', log_dir, '; it has ')), "
            "array_join(directories, ', ')))"
        ),
        remedy="use the names of the broker's own directories",
        standing=Standing.LEFT_OUT,
    ),
)

TOPICS = (
    Rule(
        name="all_partitions_described",
        ok="partition_count IS NULL OR described >= partition_count",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason=f"concat('topic ', topic, ' has ', {plural('partition_count', 'partition')}, {DESCRIBED})",
        remedy="give the whole output of kafka-topics.sh --describe",
    ),
    Rule(
        name="not_being_deleted",
        ok="NOT coalesce(marked_for_deletion, false)",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat('topic ', topic, ' is marked for deletion')",
        remedy="wait until the topic is deleted, then plan again",
        standing=Standing.BROKEN,
    ),
)

REASSIGNMENTS = (
    Rule(
        name="reassignment_readable",
        ok=(
            f"topic IS NOT NULL AND partition BETWEEN 0 AND {INT32_MAX} "
            f"AND forall(replicas, id -> id BETWEEN 0 AND {INT32_MAX})"
        ),
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason="'the topic, partition or replicas are missing or out of range'",
        remedy="run kafka-reassign-partitions.sh --list again",
    ),
    Rule(
        name="reassignment_of_known_partition",
        ok="is_known",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' is being reassigned, but no description has it')",
        remedy="take all outputs at the same time",
        standing=Standing.CONTRADICTS,
    ),
)

LOADS = (
    Rule(
        name="load_in_range",
        ok=f"({_in_range('size_bytes')}) AND ({_in_range('in_bytes_per_s')}) AND ({_in_range('out_bytes_per_s')})",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason=(
            f"concat({_NAME}, ': size ', coalesce(size_bytes, 'none'), ', in ', coalesce(in_bytes_per_s, 'none'), "
            "', out ', coalesce(out_bytes_per_s, 'none'))"
        ),
        remedy=f"give whole numbers from 0 to {LARGEST}",
    ),
    Rule(
        name="load_agrees",
        ok="variants = 1",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ' has ', variants, ' different loads')",
        remedy="keep one row for each partition",
    ),
    Rule(
        name="load_of_known_partition",
        ok="is_known",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason=f"concat('there is a load for ', {_NAME}, ', but no description has this partition')",
        remedy="describe all topics, and export loads and topics at the same time",
    ),
)

OFFSETS = (
    Rule(
        name="offset_readable",
        ok=f"topic IS NOT NULL AND partition BETWEEN 0 AND {INT32_MAX} AND ({_in_range('offset')})",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason="'the topic, partition or offset is missing or out of range'",
        remedy="run kafka-get-offsets.sh again",
    ),
    Rule(
        name="offset_of_known_partition",
        ok="is_known",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat('there is an offset of ', {_NAME}, ', but no description has this partition')",
        remedy="take all outputs at the same time",
    ),
    Rule(
        name="offsets_in_order",
        ok=(
            f"time <> '{EARLIEST_LOCAL}' OR coalesce({EARLIEST} <= {EARLIEST_LOCAL}, true) "
            f"AND coalesce({EARLIEST_LOCAL} <= {LATEST}, true)"
        ),
        severity=Severity.ERROR,
        stops=Stops.NEVER,
        reason=(
            f"concat({_NAME}, ': earliest-local ', {EARLIEST_LOCAL}, ' is not between earliest ', "
            f"coalesce({EARLIEST}, 'unknown'), ' and latest ', coalesce({LATEST}, 'unknown'))"
        ),
        remedy="run kafka-get-offsets.sh again for all its times, one right after the other",
        standing=Standing.CONTRADICTS,
    ),
)

# For the partitions in metrics.
METRICS = (
    Rule(
        name="metrics_of_known_partition",
        ok="is_known",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason=f"concat('there are samples for ', {_NAME}, ', but no description has this partition')",
        remedy="describe all topics; if the topic was deleted, export metrics of a later time",
    ),
)

# For the table ``partition_load``.
COVERAGE = (
    Rule(
        name="size_known",
        ok="size_source <> 'missing'",
        severity=Severity.WARNING,
        stops=Stops.COVERAGE,
        reason=f"concat({_NAME}, ' has no size')",
        remedy="give the output of kafka-log-dirs.sh --describe, or metrics with size_bytes",
        standing=Standing.LEFT_OUT,
    ),
    Rule(
        name="rates_known",
        ok="rate_source <> 'missing'",
        severity=Severity.WARNING,
        stops=Stops.COVERAGE,
        reason=f"concat({_NAME}, ' has no rates')",
        remedy="give metrics with in_bytes_per_s and out_bytes_per_s, or set [metrics] rates_required = false",
        standing=Standing.LEFT_OUT,
    ),
)

RULES = (
    *PLACEMENTS,
    *SNAPSHOTS,
    *BROKERS,
    *KNOWN_BROKERS,
    *LOG_DIRS,
    *REPLICA_SIZES,
    *PLACED_SIZES,
    *CAPACITIES,
    *TOPICS,
    *REASSIGNMENTS,
    *LOADS,
    *OFFSETS,
    *METRICS,
    *COVERAGE,
)


def known_brokers(settings: Settings) -> tuple[Rule, ...]:
    """Rules of brokers; without a rack policy racks may be missing."""
    if settings.policy.rack_policy == "spread":
        return KNOWN_BROKERS
    return tuple(rule for rule in KNOWN_BROKERS if rule.name != "rack_known")


def coverage(settings: Settings) -> tuple[Rule, ...]:
    """Rules of loads; missing rates that are not required are counted, not listed."""
    if settings.metrics.rates_required:
        return COVERAGE
    return tuple(
        replace(rule, stops=Stops.NEVER, listed=False) if rule.name == "rates_known" else rule for rule in COVERAGE
    )
