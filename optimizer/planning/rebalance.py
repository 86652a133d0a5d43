"""What a rebalance of a consumer group moves: a member leaves, or some come."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.kafka.assignors import Assigned, Key, Member, range_assignment, round_robin_assignment
from optimizer.kafka.sticky_assignors import COOPERATIVE, cooperative_sticky_assignment, sticky_assignment

ASSIGNORS: Mapping[str, Callable[[Mapping[str, int], Sequence[Member]], Assigned]] = {
    "range": range_assignment,
    "roundrobin": round_robin_assignment,
    "sticky": sticky_assignment,
    COOPERATIVE: cooperative_sticky_assignment,
}
NEW = "\uffff"  # begins the ids of members that come: they sort last


def assignor_of(group: Mapping[str, Any]) -> str:
    """The name in ``ASSIGNORS`` of a row of ``consumer_groups``; "" for another one, such as one of a coordinator."""
    name = str(group["assignor"] or "").lower()
    return name if name in ASSIGNORS and group["protocol"] != "consumer" else ""


@dataclass(frozen=True)
class Sharing:
    """A group in which each partition of its topics has one holder.

    Parameters
    ----------
    members : sequence of Member
        With what they hold, each subscribed to all topics of the group.
    rates : mapping
        Bytes per second that producers write, by partition.
    counts : mapping
        Partitions by topic.
    """

    members: Sequence[Member]
    rates: Mapping[Key, int]
    counts: Mapping[str, int]

    @property
    def held(self) -> Assigned:
        """What each member holds now."""
        return {member.member_id: [*member.owned] for member in self.members}

    def assigned(self, assignor: str, members: Sequence[Member]) -> Assigned:
        """What each of some members holds after a rebalance; with the cooperative assignor after its last step."""
        given = ASSIGNORS[assignor](self.counts, members)
        if sum(map(len, given.values())) == sum(self.counts.values()):
            return given
        return self.assigned(assignor, [m._replace(owned=tuple(given[m.member_id])) for m in members])

    def is_predicted(self, assignor: str) -> bool:
        """Whether members hold what the assignor gives them; not if they subscribe to different topics."""
        given = self.assigned(assignor, self.members)
        return all(set(given[member.member_id]) == set(member.owned) for member in self.members)

    def moved(self, after: Assigned) -> int:
        """How many partitions have another holder."""
        owner = {key: member.member_id for member in self.members for key in member.owned}
        return sum(owner.get(key, name) != name for name, keys in after.items() for key in keys)

    def load(self, keys: Sequence[Key]) -> int:
        """Bytes per second of some partitions."""
        return sum(self.rates.get(key, 0) for key in keys)

    def busiest(self, assigned: Assigned) -> str:
        """The member that reads most; without rates the one with most partitions."""
        return min(assigned, key=lambda name: (-self.load(assigned[name]), -len(assigned[name]), name))

    def moved_if_busiest_leaves(self, assignor: str) -> int | None:
        """As ``moved``; None for another assignor, without other members, or unless the assignor predicts today."""
        if assignor not in ASSIGNORS or len(self.members) < 2 or not self.is_predicted(assignor):
            return None
        leaver = self.busiest(self.held)
        return self.moved(self.assigned(assignor, [m for m in self.members if m.member_id != leaver]))


def sharing_of(
    group: Mapping[str, Any], members: Sequence[Mapping[str, Any]], rates_of: Callable[[str], Mapping[Key, int]]
) -> Sharing | None:
    """A group's sharing; None if a source does not say what all members hold, or if the group is about to change.

    Parameters
    ----------
    group, members : mapping, sequence of mapping
        Rows of ``consumer_groups`` and ``consumer_members``.
    rates_of : callable
        Bytes per second of each partition of a topic.
    """
    if not group["is_complete"] or group["members"] != len(members) or any(row["assigned"] is None for row in members):
        return None
    named = [[(str(t["topic"]), int(p)) for t in row["assigned"] for p in t["partitions"]] for row in members]
    rates = {
        key: rate for topic in sorted({t for keys in named for t, _ in keys}) for key, rate in rates_of(topic).items()
    }
    owned = [tuple(key for key in keys if key in rates) for keys in named]
    counts: dict[str, int] = {}
    for topic, partition in rates:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    # With partitions that nobody holds, or that two members hold, the group is about to change.
    each = [key for keys in owned for key in keys]
    if not each or len(each) != len(set(each)) or len(each) != len(rates):
        return None
    of_all = [
        Member(row["member_id"], tuple(counts), row["instance_id"], owned=keys)
        for row, keys in zip(members, owned, strict=True)
    ]
    return Sharing(of_all, rates, counts)
