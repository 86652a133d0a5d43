"""Consumer groups: who reads, as clean tables, and what a plan means for the readers."""

from schemas.table import Table, column, keyed

_GROUP = column("group_id", "string", "consumer group")
_MEMBER = (
    column("member_id", "string", "member; Kafka's id"),
    column("client_id", "string", "client id; null if unknown", nullable=True),
    column("host", "string", "host of the member; null if unknown", nullable=True),
    column("instance_id", "string", "group.instance.id; null for a dynamic member, or if unknown", nullable=True),
)
_PROTOCOL = column("protocol", "string", "classic or consumer (KIP-848); null if no source has it", nullable=True)
_STATE = column("state", "string", "state of the group, in Kafka's words; null if no source has it", nullable=True)
_ASSIGNOR = column("assignor", "string", "assignor in use; null if no source has it", nullable=True)
_LAG = column("lag_messages", "bigint", "sum of the lags that the source has; null without any", nullable=True)

CONSUMER_GROUPS = Table(
    name="consumer_groups",
    doc="One consumer group.",
    columns=keyed(
        _GROUP,
        _PROTOCOL,
        _STATE,
        _ASSIGNOR,
        column("coordinator_id", "int", "broker that coordinates the group; null if no source has it", nullable=True),
        column("members", "int", "number of members; null if no source has it", nullable=True),
        column("epoch", "bigint", "epoch of the group; null in the classic protocol", nullable=True),
        column("topics", "array<string>", "topics with an offset, or with a partition that a member holds"),
        _LAG,
        column("is_complete", "boolean", "false if no source says who the members are"),
    ),
    key=("group_id",),
)

CONSUMER_MEMBERS = Table(
    name="consumer_members",
    doc="One member of a consumer group.",
    columns=keyed(
        _GROUP,
        *_MEMBER,
        column("partitions", "int", "number of partitions that it holds; null if no source has it", nullable=True),
        column(
            "assigned",
            "array<struct<topic:string,partitions:array<int>>>",
            "partitions that it holds, described ones only; null if no source has it",
            nullable=True,
        ),
    ),
    key=("group_id", "member_id"),
)

CONSUMER_LOAD = Table(
    name="consumer_load",
    doc="What one member of a consumer group reads, and from which brokers, before and after the plan.",
    columns=keyed(
        _GROUP,
        *_MEMBER,
        column("partitions", "int", "partitions that it holds"),
        column(
            "in_bytes_per_s", "bigint", "bytes that producers write into them; null if rates are unknown", nullable=True
        ),
        column("brokers", "array<int>", "brokers that lead its partitions now"),
        column("brokers_after", "array<int>", "the same after the plan"),
    ),
    key=("group_id", "member_id"),
)

CONSUMER_IMPACT = Table(
    name="consumer_impact",
    doc="How evenly one consumer group reads, and what of the plan it notices.",
    columns=keyed(
        _GROUP,
        _PROTOCOL,
        _STATE,
        _ASSIGNOR,
        _LAG,
        column("members", "int", "number of members; null if unknown", nullable=True),
        column("is_known", "boolean", "true if the sources say who holds what; otherwise most columns are null"),
        column("partitions", "int", "partitions that members hold", nullable=True),
        column(
            "in_bytes_per_s",
            "bigint",
            "bytes that producers write into these; null if rates are unknown",
            nullable=True,
        ),
        column(
            "busiest_over_mean",
            "double",
            "bytes of the busiest member over the mean; null unless each partition has one holder",
            nullable=True,
        ),
        column(
            "possible_over_mean",
            "double",
            "the least of today, both assignors, and the largest partition first to the member with the least",
            nullable=True,
        ),
        column(
            "least_over_mean",
            "double",
            "no assignment of whole partitions gives less; formula 32 of docs/solver.md",
            nullable=True,
        ),
        column(
            "range_over_mean",
            "double",
            "with the range assignor, all members subscribed to all topics of the group, without racks",
            nullable=True,
        ),
        column("round_robin_over_mean", "double", "the same with the round-robin assignor", nullable=True),
        column(
            "moved_if_busiest_leaves",
            "int",
            "partitions that then move; null unless Kafka's assignor of the group gives what members hold today",
            nullable=True,
        ),
        column(
            "rack_set_changes",
            "int",
            "partitions held whose set of racks changes: a classic group may rebalance; null if no racks are known",
            nullable=True,
        ),
        column(
            "rack_list_changes",
            "int",
            "the same for the list of racks, one for each replica: a group of the consumer protocol gets a new epoch",
            nullable=True,
        ),
        column("leader_changes", "int", "partitions held that another broker leads after the plan", nullable=True),
        column("copied", "int", "partitions held that are copied from their leader meanwhile", nullable=True),
        column("topics", "array<string>", "topics of the partitions that members hold"),
        column("changed_topics", "array<string>", "those of them with a partition that the plan changes"),
        column(
            "waves",
            "array<struct<wave:int,rack_set_changes:int,rack_list_changes:int,leader_changes:int,copied:int>>",
            "the same numbers for each wave that changes a partition held",
        ),
    ),
    key=("group_id",),
)

TABLES = (CONSUMER_GROUPS, CONSUMER_MEMBERS, CONSUMER_LOAD, CONSUMER_IMPACT)
