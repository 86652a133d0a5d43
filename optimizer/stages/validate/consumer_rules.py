"""The data-quality rules about consumer groups; ``consumers`` adds the columns that their SQL uses.

No row about a group stops a run: a plan does not need them.
"""

from optimizer.stages.validate.rule import Rule, Severity, Standing, Stops

_PARTITION = "concat(topic, '-', partition)"
_SAME_TIME = "run kafka-topics.sh --describe and kafka-consumer-groups.sh at the same time"

# For committed offsets.
OFFSETS = (
    Rule(
        name="offset_is_described",
        ok="topic IS NOT NULL AND partition IS NOT NULL AND group IS NOT NULL AND is_known IS NOT NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat('group ', group, ' has an offset for ', {_PARTITION}, ', which no description names')",
        remedy=f"if the topic still exists, {_SAME_TIME}; offsets of deleted topics stay until they expire",
    ),
)

# For the partitions that members hold, one row each; a member without partitions has a row without topic.
HELD = (
    Rule(
        name="held_is_described",
        ok="NOT is_listed OR topic IS NULL OR partition IS NULL OR is_known IS NOT NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat('a member of group ', group, ' holds ', {_PARTITION}, ', which no description names')",
        remedy=_SAME_TIME,
    ),
    Rule(
        name="held_by_one_member",
        ok="topic IS NULL OR partition IS NULL OR holders = 1",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat(holders, ' members of group ', group, ' hold ', {_PARTITION})",
        remedy="take the output again when the group does not rebalance",
        standing=Standing.CONTRADICTS,
    ),
)

# For groups.
GROUPS = (
    Rule(
        name="members_are_read",
        ok="is_complete OR has_members",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat('the members of group ', group, ' could not be read', "
            "if(protocol = 'consumer', ': a live cluster does not show those of the consumer protocol (KIP-848)', ''))"
        ),
        remedy="put the output of kafka-consumer-groups.sh --describe --all-groups --members --verbose into the folder",
        standing=Standing.LEFT_OUT,
    ),
)
