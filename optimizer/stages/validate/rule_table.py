"""The one table of data-quality rules, by what they judge; ``judge`` adds what their SQL names."""

from dataclasses import replace

from optimizer.settings import Settings
from optimizer.stages.shared.records import LARGEST
from optimizer.stages.shared.sql_words import agree, plural
from optimizer.stages.validate.rule import Rule

INT32_MAX = 2**31 - 1  # Kafka's broker and partition ids are ints
_NAME = "concat(topic, '-', partition)"
# How many partitions of a topic were seen.
DESCRIBED = f"', ', seen, {agree('seen', ' is', ' are')}, ' described'"
_REPLICAS = "concat('[', array_join(replicas, ','), ']')"


def _in_range(column: str, *, least: int = 0) -> str:
    value = f"try_cast({column} AS DECIMAL(38,0))"
    return f"{column} IS NULL OR coalesce({value} BETWEEN {least} AND {LARGEST}, false)"


PLACEMENTS = (
    Rule(
        "placement_readable",
        f"topic IS NOT NULL AND partition BETWEEN 0 AND {INT32_MAX} AND replicas IS NOT NULL",
        "error",
        "any",
        "'topic, partition or replicas are missing or out of range'",
        "take the description again",
    ),
    Rule(
        "topic_name_legal",
        "topic IS NULL OR (topic RLIKE '^[a-zA-Z0-9._-]{1,249}$' AND topic NOT IN ('.', '..'))",
        "error",
        "any",
        "concat('Kafka allows no topic named ', topic)",
        "names have at most 249 letters, digits, dots, dashes and underscores: mend the file",
    ),
    Rule(
        "replicas_not_empty",
        "replicas IS NULL OR size(replicas) > 0",
        "error",
        "any",
        f"concat({_NAME}, ' has no replica (replication factor 0)')",
        "take the description again; Kafka has no partition without a replica",
    ),
    Rule(
        "no_repeated_broker",
        "replicas IS NULL OR size(array_distinct(replicas)) = size(replicas)",
        "error",
        "any",
        f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' name a broker twice')",
        "mend the list: Kafka refuses a repeated broker",
    ),
    Rule(
        "broker_ids_legal",
        f"replicas IS NULL OR forall(replicas, id -> id BETWEEN 0 AND {INT32_MAX})",
        "error",
        "any",
        f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' name a broker that cannot be')",
        f"broker ids are 0 to {INT32_MAX}; -1 means no broker and belongs in no replica list",
    ),
    Rule(
        "target_not_empty",
        "replicas IS NULL OR size(replicas) = 0 OR size(array_except(replicas, removing)) > 0",
        "error",
        "any",
        f"concat({_NAME}, ': the reassignment in flight removes every replica')",
        "take the description again",
    ),
    Rule(
        "isr_within_replicas",
        "size(array_except(isr, replicas)) <= 0",
        "warning",
        "never",
        f"concat({_NAME}, ': ISR [', array_join(isr, ','), '] is not within replicas ', {_REPLICAS})",
        "take the description again when no reassignment runs; brokers outside the replicas are left out of the ISR",
        standing="contradicts",
    ),
    Rule(
        "leader_within_replicas",
        "leader IS NULL OR array_contains(replicas, leader)",
        "warning",
        "never",
        f"concat({_NAME}, ': leader ', leader, ' is not within replicas ', {_REPLICAS})",
        "take the description again; the partition counts as leaderless and is not moved",
        standing="contradicts",
    ),
    Rule(
        "has_leader",
        "leader IS NOT NULL",
        "warning",
        "never",
        f"concat({_NAME}, ' has no leader')",
        "bring a replica back: a partition without a leader can't be copied, so it is not moved",
        standing="broken",
    ),
)

# Of the rows that keep the rules above.
SNAPSHOTS = (
    Rule(
        "no_conflicting_snapshot",
        "NOT in_conflict",
        "error",
        "any",
        f"concat({_NAME}, ': replicas ', {_REPLICAS}, ' here, [', array_join(other.replicas, ','), '] in ', "
        "other.source, ':', other.line)",
        "keep one description of the cluster: the newest",
    ),
    Rule(
        "no_duplicate_snapshot",
        "place = 1 OR kind <> first_kind OR in_conflict OR NOT is_alike",
        "warning",
        "never",
        f"concat({_NAME}, ' is described again, the same, in ', first_source)",
        "keep one description of the cluster",
    ),
    Rule(
        "snapshots_alike",
        "kind <> first_kind OR in_conflict OR is_alike",
        "warning",
        "never",
        f"concat({_NAME}, ': leader ', coalesce(leader, 'none'), ', ISR [', array_join(isr, ','), '] here, leader ', "
        "coalesce(first_leader, 'none'), ', ISR [', array_join(first_isr, ','), '] in ', first_source, ':', "
        "first_line, ', which counts: its ISR is not larger')",
        "keep one description of the cluster: the newest",
        standing="contradicts",
    ),
    Rule(
        "assignment_agrees",
        "kind = first_kind OR replicas = first_replicas",
        "warning",
        "never",
        f"concat({_NAME}, ': assignment ', {_REPLICAS}, ', described [', array_join(first_replicas, ','), ']')",
        "the description counts; leave documents of other plans out of the folder",
        standing="contradicts",
    ),
)

BROKERS = (
    Rule(
        "broker_id_legal",
        f"broker_id BETWEEN 0 AND {INT32_MAX}",
        "error",
        "any",
        "concat('broker id ', coalesce(broker_id, 'null'), ' cannot be')",
        f"broker ids are 0 to {INT32_MAX}",
    ),
    Rule(
        "one_rack_a_broker",
        "size(racks) <= 1",
        "error",
        "any",
        "concat('broker ', broker_id, ' stands in the racks ', array_join(racks, ', '))",
        "name one rack for each broker",
    ),
)

# Of the table ``brokers``.
KNOWN_BROKERS = (
    Rule(
        "broker_registered",
        "is_registered",
        "warning",
        "never",
        f"concat('broker ', broker_id, ' is in ', {plural('partitions', 'replica list')}, "
        "', but no such broker is registered')",
        "it counts as dead and its replicas move away: start it again, or add it to the list of brokers",
        standing="broken",
    ),
    Rule(
        "rack_known",
        "rack IS NOT NULL OR NOT racks_used OR NOT is_registered",
        "warning",
        "any",
        "concat('broker ', broker_id, ' has no rack, others have one')",
        'set broker.rack on every broker, or [policy] rack_policy = "none"',
    ),
)

LOG_DIRS = (
    Rule(
        "log_dir_readable",
        f"broker_id BETWEEN 0 AND {INT32_MAX} AND log_dir IS NOT NULL",
        "error",
        "share",
        "'broker or log directory is missing or out of range'",
        "run kafka-log-dirs.sh again",
    ),
    Rule(
        "log_dir_size_in_range",
        _in_range("total_bytes"),
        "error",
        "share",
        "concat('total_bytes ', total_bytes, ' of ', log_dir, ' on broker ', broker_id)",
        f"give bytes from 0 to {LARGEST}",
    ),
)

REPLICA_SIZES = (
    Rule(
        "replica_size_readable",
        f"broker_id BETWEEN 0 AND {INT32_MAX} AND topic IS NOT NULL AND partition BETWEEN 0 AND {INT32_MAX} "
        "AND log_dir IS NOT NULL",
        "error",
        "share",
        "'broker, directory, topic or partition is missing or out of range'",
        "run kafka-log-dirs.sh again",
    ),
    Rule(
        "replica_size_in_range",
        f"size_bytes IS NOT NULL AND ({_in_range('size_bytes')})",
        "error",
        "share",
        f"concat({_NAME}, ' on broker ', broker_id, ': size ', coalesce(size_bytes, 'missing'))",
        f"give bytes from 0 to {LARGEST}",
    ),
)

# Of the rows that keep the rules above.
PLACED_SIZES = (
    Rule(
        "replica_size_once",
        "place = 1",
        "warning",
        "never",
        f"concat({_NAME}, ' on broker ', broker_id, ' is given again in ', first_source)",
        "keep one output of kafka-log-dirs.sh: the newest counts",
    ),
)

# -1 stands for all brokers, in Cruise Control's files; what is given must be positive.
CAPACITIES = (
    Rule(
        "capacity_in_range",
        f"broker_id BETWEEN -1 AND {INT32_MAX} AND ({_in_range('disk_bytes', least=1)}) "
        f"AND ({_in_range('in_bytes_per_s', least=1)}) AND ({_in_range('out_bytes_per_s', least=1)})",
        "error",
        "any",
        "concat('capacity of broker ', coalesce(broker_id, 'null'), ': disk ', coalesce(disk_bytes, 'none'), "
        "', in ', coalesce(in_bytes_per_s, 'none'), ', out ', coalesce(out_bytes_per_s, 'none'))",
        f"give whole numbers from 1 to {LARGEST}; leave out what is not known",
    ),
    Rule(
        "capacity_agrees",
        "variants = 1",
        "error",
        "any",
        "concat('capacity of broker ', broker_id, coalesce(concat(' ', log_dir), ''), ' is given in ', variants, "
        "' ways')",
        "keep one capacity for each broker and directory",
    ),
    Rule(
        "capacity_of_known_broker",
        "broker_id = -1 OR is_known",
        "warning",
        "never",
        "concat('capacity of broker ', broker_id, ', which the cluster does not have')",
        "remove the entry, or correct its id",
        standing="left_out",
    ),
    Rule(
        "capacity_of_known_log_dir",
        "is_matched",
        "warning",
        "never",
        "concat('broker ', broker_id, ' has no directory ', log_dir, '; it has ', array_join(directories, ', '))",
        "name directories as the broker does",
        standing="left_out",
    ),
)

TOPICS = (
    Rule(
        "all_partitions_described",
        "partition_count IS NULL OR seen >= partition_count",
        "warning",
        "any",
        f"concat('topic ', topic, ' has ', {plural('partition_count', 'partition')}, {DESCRIBED})",
        "give the whole output of kafka-topics.sh --describe",
    ),
    Rule(
        "not_being_deleted",
        "NOT coalesce(marked_for_deletion, false)",
        "warning",
        "never",
        "concat('topic ', topic, ' is marked for deletion')",
        "plan after it is gone",
        standing="broken",
    ),
)

REASSIGNMENTS = (
    Rule(
        "reassignment_readable",
        f"topic IS NOT NULL AND partition BETWEEN 0 AND {INT32_MAX} "
        f"AND forall(replicas, id -> id BETWEEN 0 AND {INT32_MAX})",
        "error",
        "any",
        "'topic, partition or replicas are missing or out of range'",
        "take the list of reassignments again",
    ),
    Rule(
        "reassignment_of_known_partition",
        "is_known",
        "warning",
        "never",
        f"concat('the reassignment of ', {_NAME}, ' is of no described partition')",
        "take the outputs together",
        standing="contradicts",
    ),
)

LOADS = (
    Rule(
        "load_in_range",
        f"({_in_range('size_bytes')}) AND ({_in_range('in_bytes_per_s')}) AND ({_in_range('out_bytes_per_s')})",
        "error",
        "share",
        f"concat({_NAME}, ': size ', coalesce(size_bytes, 'none'), ', in ', coalesce(in_bytes_per_s, 'none'), "
        "', out ', coalesce(out_bytes_per_s, 'none'))",
        f"give whole numbers from 0 to {LARGEST}",
    ),
    Rule(
        "load_agrees",
        "variants = 1",
        "error",
        "any",
        f"concat('the load of ', {_NAME}, ' is given in ', variants, ' ways')",
        "keep one row for each partition",
    ),
    Rule(
        "load_of_known_partition",
        "is_known",
        "error",
        "share",
        f"concat('load of ', {_NAME}, ', which is not described')",
        "describe all topics, or export loads and topics at the same time",
    ),
)

# Of the partitions that metrics name.
METRICS = (
    Rule(
        "metrics_of_known_partition",
        "is_known",
        "error",
        "share",
        f"concat('samples of ', {_NAME}, ', which is not described')",
        "describe all topics; if the topic was deleted, export a later window",
    ),
)

# Of the table ``partition_load``.
COVERAGE = (
    Rule(
        "size_known",
        "size_source <> 'missing'",
        "warning",
        "coverage",
        f"concat({_NAME}, ' has no size')",
        "give the output of kafka-log-dirs.sh --describe, or metrics with size_bytes",
        standing="left_out",
    ),
    Rule(
        "rates_known",
        "rate_source <> 'missing'",
        "warning",
        "coverage",
        f"concat({_NAME}, ' has no rates')",
        "give metrics with in_bytes_per_s and out_bytes_per_s, or [metrics] rates_required = false",
        standing="left_out",
    ),
)


def known_brokers(settings: Settings) -> tuple[Rule, ...]:
    """Rules of the brokers under a rack policy: racks that are ignored may be missing."""
    return KNOWN_BROKERS if settings.policy.rack_policy == "spread" else KNOWN_BROKERS[:1]


def coverage(settings: Settings) -> tuple[Rule, ...]:
    """Rules of the loads: rates that are not required are counted, not listed."""
    size, rates = COVERAGE
    return (size, rates if settings.metrics.rates_required else replace(rates, stops="never", listed=False))
