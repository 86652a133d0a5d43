"""The one table of data-quality rules, by what they judge; ``judge`` adds what their SQL names."""

from dataclasses import replace

from optimizer.settings import Settings
from optimizer.stages.shared.records import LARGEST
from optimizer.stages.shared.sql_words import agree, plural
from optimizer.stages.validate.rule import Rule, Severity, Standing, Stops

INT32_MAX = 2**31 - 1  # Kafka's broker and partition ids are ints
_NAME = "concat(topic, '-', partition)"
# How many partitions of a topic were seen.
DESCRIBED = f"', ', seen, {agree('seen', ' is', ' are')}, ' described'"
_REPLICAS = "concat('[', array_join(replicas, ','), ']')"
# A directory as remote://bucket is object storage, and no disk; one letter before the colon is a drive.
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
        reason="'topic, partition or replicas are missing or out of range'",
        remedy="take the description again",
    ),
    Rule(
        name="topic_name_legal",
        ok="topic IS NULL OR (topic RLIKE '^[a-zA-Z0-9._-]{1,249}$' AND topic NOT IN ('.', '..'))",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason="concat('Kafka allows no topic named ', topic)",
        remedy="names have at most 249 letters, digits, dots, dashes and underscores: mend the file",
    ),
    Rule(
        name="replicas_not_empty",
        ok="replicas IS NULL OR size(replicas) > 0",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ' has no replica (replication factor 0)')",
        remedy="take the description again; Kafka has no partition without a replica",
    ),
    Rule(
        name="no_repeated_broker",
        ok="replicas IS NULL OR size(array_distinct(replicas)) = size(replicas)",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' name a broker twice')",
        remedy="mend the list: Kafka refuses a repeated broker",
    ),
    Rule(
        name="broker_ids_legal",
        ok=f"replicas IS NULL OR forall(replicas, id -> id BETWEEN 0 AND {INT32_MAX})",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' name a broker that cannot be')",
        remedy=f"broker ids are 0 to {INT32_MAX}; -1 means no broker and belongs in no replica list",
    ),
    Rule(
        name="target_not_empty",
        ok="replicas IS NULL OR size(replicas) = 0 OR size(array_except(replicas, removing)) > 0",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=f"concat({_NAME}, ': the reassignment in flight removes every replica')",
        remedy="take the description again",
    ),
    Rule(
        name="isr_within_replicas",
        ok="size(array_except(isr, replicas)) <= 0",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ': ISR [', array_join(isr, ','), '] is not within replicas ', {_REPLICAS})",
        remedy=(
            "take the description again when no reassignment runs; brokers outside the replicas are left out of the ISR"
        ),
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="leader_within_replicas",
        ok="leader IS NULL OR array_contains(replicas, leader)",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ': leader ', leader, ' is not within replicas ', {_REPLICAS})",
        remedy="take the description again; the partition counts as leaderless and is not moved",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="has_leader",
        ok="leader IS NOT NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' has no leader')",
        remedy="bring a replica back: a partition without a leader can't be copied, so it is not moved",
        standing=Standing.BROKEN,
    ),
)

# Of the rows that keep the rules above.
SNAPSHOTS = (
    Rule(
        name="no_conflicting_snapshot",
        ok="NOT in_conflict",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=(
            f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' here, [', array_join(other.replicas, ','), '] in ', "
            "other.source, ':', other.line)"
        ),
        remedy="keep one description of the cluster: the newest",
    ),
    Rule(
        name="no_duplicate_snapshot",
        ok="place = 1 OR kind <> first_kind OR in_conflict OR NOT is_alike",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' is described again, the same, in ', first_source)",
        remedy="keep one description of the cluster",
    ),
    Rule(
        name="snapshots_alike",
        ok="kind <> first_kind OR in_conflict OR is_alike",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({_NAME}, ': leader ', coalesce(leader, 'none'), ', ISR [', array_join(isr, ','), '] here, "
            "leader ', coalesce(first_leader, 'none'), ', ISR [', array_join(first_isr, ','), '] in ', "
            "first_source, ':', "
            "first_line, ', which counts: its ISR is not larger')"
        ),
        remedy="keep one description of the cluster: the newest",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="assignment_agrees",
        ok="kind = first_kind OR replicas = first_replicas",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ': assignment ', {_REPLICAS}, ', described [', array_join(first_replicas, ','), ']')",
        remedy="the description counts; leave documents of other plans out of the folder",
        standing=Standing.CONTRADICTS,
    ),
)

BROKERS = (
    Rule(
        name="broker_id_legal",
        ok=f"broker_id BETWEEN 0 AND {INT32_MAX}",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason="concat('broker id ', coalesce(broker_id, 'null'), ' cannot be')",
        remedy=f"broker ids are 0 to {INT32_MAX}",
    ),
    Rule(
        name="one_rack_a_broker",
        ok="size(racks) <= 1",
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason="concat('broker ', broker_id, ' stands in the racks ', array_join(racks, ', '))",
        remedy="name one rack for each broker",
    ),
)

# Of the table ``brokers``.
KNOWN_BROKERS = (
    Rule(
        name="broker_registered",
        ok="is_registered",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat('broker ', broker_id, ' is in ', {plural('partitions', 'replica list')}, "
            "', but no such broker is registered')"
        ),
        remedy="it counts as dead and its replicas move away: start it again, or add it to the list of brokers",
        standing=Standing.BROKEN,
    ),
    Rule(
        name="rack_known",
        ok="rack IS NOT NULL OR NOT racks_used OR NOT is_registered",
        severity=Severity.WARNING,
        stops=Stops.ANY,
        reason="concat('broker ', broker_id, ' has no rack, others have one')",
        remedy='set broker.rack on every broker, or [policy] rack_policy = "none"',
    ),
)

LOG_DIRS = (
    Rule(
        name="log_dir_readable",
        ok=f"broker_id BETWEEN 0 AND {INT32_MAX} AND log_dir IS NOT NULL",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason="'broker or log directory is missing or out of range'",
        remedy="run kafka-log-dirs.sh again",
    ),
    Rule(
        name="log_dir_size_in_range",
        ok=_in_range("total_bytes"),
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason="concat('total_bytes ', total_bytes, ' of ', log_dir, ' on broker ', broker_id)",
        remedy=f"give bytes from 0 to {LARGEST}",
    ),
    Rule(
        name="log_dir_is_disk",
        ok=f"NOT {HAS_SCHEME}",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat(log_dir, ' of broker ', broker_id, ' is no disk: what is in it does not count')",
        remedy="nothing to do: sizes and capacities are those of the other directories",
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
        reason="'broker, directory, topic or partition is missing or out of range'",
        remedy="run kafka-log-dirs.sh again",
    ),
    Rule(
        name="replica_size_in_range",
        ok=f"size_bytes IS NOT NULL AND ({_in_range('size_bytes')})",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason=f"concat({_NAME}, ' on broker ', broker_id, ': size ', coalesce(size_bytes, 'missing'))",
        remedy=f"give bytes from 0 to {LARGEST}",
    ),
)

# Of the rows that keep the rules above.
PLACED_SIZES = (
    Rule(
        name="replica_size_once",
        ok="place = 1 OR (source = first_source AND log_dir <> first_log_dir)",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat({_NAME}, ' on broker ', broker_id, ' is given again in ', first_source)",
        remedy="keep one output of kafka-log-dirs.sh: the newest counts",
    ),
    Rule(
        name="replica_in_one_directory",
        ok="place = 1 OR source <> first_source OR log_dir = first_log_dir",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({_NAME}, ' on broker ', broker_id, ' is in two directories of one output, ', first_log_dir, "
            "' and ', log_dir, ': the larger counts')"
        ),
        remedy="run kafka-log-dirs.sh again; if it still says so, delete the directory that the broker does not use",
        standing=Standing.CONTRADICTS,
    ),
    Rule(
        name="no_move_between_disks",
        ok="place > 1 OR NOT is_future",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"concat({plural('moving', 'replica')}, {agree('moving', ' moves', ' move')}, "
            f"' between disks of a broker, ', moving_bytes, ' bytes: ', {_NAME}, ' on broker ', broker_id, "
            "' to ', log_dir)"
        ),
        remedy="wait until these moves end: they and the plan share disks; no document names a directory for them",
        standing=Standing.NOTED,
    ),
)

# -1 stands for all brokers, in Cruise Control's files; what is given must be positive.
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
        ok=_CAPACITY_IN_RANGE,
        severity=Severity.ERROR,
        stops=Stops.ANY,
        reason=(
            "concat('capacity of broker ', coalesce(broker_id, 'null'), ': ', coalesce(doubt, "
            "concat('disk ', coalesce(disk_bytes, 'none'), "
            "', in ', coalesce(in_bytes_per_s, 'none'), ', out ', coalesce(out_bytes_per_s, 'none'), "
            "coalesce(concat(' bytes, written as ', as_written), ''))))"
        ),
        remedy=f"give 1 to {LARGEST} bytes, and leave out what is not known; {UNITS_OF_CAPACITIES}",
    ),
    Rule(
        name="capacity_believable",
        ok=f"doubt IS NULL OR NOT coalesce({_CAPACITY_IN_RANGE}, false)",
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
            "concat('capacity of broker ', broker_id, coalesce(concat(' ', log_dir), ''), ' is given in ', variants, "
            "' ways')"
        ),
        remedy="keep one capacity for each broker and directory",
    ),
    Rule(
        name="capacity_of_known_broker",
        ok="broker_id = -1 OR is_known",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason="concat('capacity of broker ', broker_id, ', which the cluster does not have')",
        remedy="remove the entry, or correct its id",
        standing=Standing.LEFT_OUT,
    ),
    Rule(
        name="capacity_of_known_log_dir",
        ok="is_matched",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            f"if({HAS_SCHEME}, concat('the capacity of broker ', broker_id, ' names ', log_dir, ', which is no disk'), "
            "concat(if(broker_id = -1, concat('no broker has the directory ', log_dir, ' of the default capacity; they "
            "have '), concat('broker ', broker_id, ' has no directory ', log_dir, '; it has ')), "
            "array_join(directories, ', ')))"
        ),
        remedy="name directories as the broker does",
        standing=Standing.LEFT_OUT,
    ),
)

TOPICS = (
    Rule(
        name="all_partitions_described",
        ok="partition_count IS NULL OR seen >= partition_count",
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
        remedy="plan after it is gone",
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
        reason="'topic, partition or replicas are missing or out of range'",
        remedy="take the list of reassignments again",
    ),
    Rule(
        name="reassignment_of_known_partition",
        ok="is_known",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat('the reassignment of ', {_NAME}, ' is of no described partition')",
        remedy="take the outputs together",
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
        reason=f"concat('the load of ', {_NAME}, ' is given in ', variants, ' ways')",
        remedy="keep one row for each partition",
    ),
    Rule(
        name="load_of_known_partition",
        ok="is_known",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason=f"concat('load of ', {_NAME}, ', which is not described')",
        remedy="describe all topics, or export loads and topics at the same time",
    ),
)

# Of the partitions that metrics name.
METRICS = (
    Rule(
        name="metrics_of_known_partition",
        ok="is_known",
        severity=Severity.ERROR,
        stops=Stops.SHARE,
        reason=f"concat('samples of ', {_NAME}, ', which is not described')",
        remedy="describe all topics; if the topic was deleted, export a later window",
    ),
)

# Of the table ``partition_load``.
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
        remedy="give metrics with in_bytes_per_s and out_bytes_per_s, or [metrics] rates_required = false",
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
    *METRICS,
    *COVERAGE,
)


def known_brokers(settings: Settings) -> tuple[Rule, ...]:
    """Rules of the brokers under a rack policy: racks that are ignored may be missing."""
    if settings.policy.rack_policy == "spread":
        return KNOWN_BROKERS
    return tuple(rule for rule in KNOWN_BROKERS if rule.name != "rack_known")


def coverage(settings: Settings) -> tuple[Rule, ...]:
    """Rules of the loads: rates that are not required are counted, not listed."""
    if settings.metrics.rates_required:
        return COVERAGE
    return tuple(
        replace(rule, stops=Stops.NEVER, listed=False) if rule.name == "rates_known" else rule for rule in COVERAGE
    )
