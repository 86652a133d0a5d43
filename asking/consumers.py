"""What a rebalance of a consumer group moves and stops: a member leaves, or some join."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asking.run_facts import RunFacts, captured
from asking.sections import Document, Section
from optimizer.emit.consumer_counts import idle_in_words, moved_in_words, stopped
from optimizer.errors import ConfigError
from optimizer.kafka.assignors import Assigned, Member
from optimizer.planning.rebalance import ASSIGNORS, NEW, Sharing, assignor_of, sharing_of
from optimizer.units import agree, first_of, human_rate, plural

_SHOWN = 5  # names in an error
_Row = Mapping[str, Any]
_NAMES = ("member_id", "client_id", "instance_id")


@dataclass(frozen=True)
class GroupChange:
    """A change of the members of a group.

    Parameters
    ----------
    group, shared :
        The group's row of ``consumer_groups``, and how its members share.
    change : str
        In words.
    after : mapping
        What each member holds then.
    """

    facts: RunFacts
    group: _Row
    shared: Sharing
    change: str
    after: Assigned

    def words(self) -> str:
        """One sentence."""
        assignor = assignor_of(self.group)
        moves = moved_in_words(self.shared.moved(self.after), len(self.shared.rates), assignor)
        now, then = (self._busiest(assigned) for assigned in (self.shared.held, self.after))
        return f"If {self.change} ({assignor}), {moves}; the busiest member reads {now} now, {then} then."

    def document(self) -> Document:
        """The sentence, and what is assumed."""
        run = f"{self.facts.cluster_id}: consumers, from run {self.facts.run_id}{captured(self.facts)}"
        return Document(self.words(), [run], [Section("Remarks", [*self._notes()])])

    def as_json(self) -> str:
        """One line with all of it."""
        facts, assignor = self.facts, assignor_of(self.group)
        moved, partitions = self.shared.moved(self.after), len(self.shared.rates)
        content = {
            "cluster_id": facts.cluster_id,
            "run_id": facts.run_id,
            "captured_at": facts.captured_at.isoformat() if facts.captured_at else None,
            "headline": self.words(),
            **{"group_id": self.group["group_id"], "assignor": assignor, "partitions": partitions},
            **{"partitions_moved": moved, "partitions_stopped": stopped(moved, partitions, assignor)},
            **{"now": self._state(self.shared.held), "then": self._state(self.after), "notes": [*self._notes()]},
        }
        return json.dumps(content)

    def _state(self, assigned: Assigned) -> dict[str, Any]:
        name = self.shared.busiest(assigned)
        return {
            "members": len(assigned),
            "idle_members": sum(not keys for keys in assigned.values()),
            "busiest": None if name.startswith(NEW) else name,
            "busiest_partitions": len(assigned[name]),
            "busiest_in_bytes_per_s": self.shared.load(assigned[name]),
        }

    def _busiest(self, assigned: Assigned) -> str:
        state = self._state(assigned)
        rate, count = state["busiest_in_bytes_per_s"], state["busiest_partitions"]
        return f"{human_rate(rate) if rate else plural(count, 'partition')} ({state['busiest'] or 'a new member'})"

    def _notes(self) -> Iterator[str]:
        if idle := self._state(self.after)["idle_members"]:
            yield f"Then {idle_in_words(idle, len(self.after), len(self.shared.rates))}."
        yield "All members are assumed to subscribe to all topics of the group, without client.rack."
        if not self.shared.is_predicted(assignor_of(self.group)):
            yield f"Members do not hold what {assignor_of(self.group)} would then give them: the figures may be wrong."
        if any(name.startswith(NEW) for name in self.after):
            yield "The ids of new members are assumed to sort after all others."


def leaving(facts: RunFacts, text: str) -> GroupChange:
    """A member leaves.

    Parameters
    ----------
    text : str
        The group, and after ``=`` the member, by its id, client id or instance id; otherwise the busiest.

    Raises
    ------
    ConfigError
        When the group or member is unknown, or what moves is.
    """
    known = {row["group_id"] for row in facts.consumer_groups}
    name, _, named = (text, "", "") if text in known else text.rpartition("=") if "=" in text else (text, "", "")
    group, rows, shared = _group(facts, name, f"--consumer-leaves {text}")
    found = [row["member_id"] for row in rows if named in [row[column] for column in _NAMES]]
    if named and len(found) != 1:
        problem = f"{len(found)} members have this client id" if found else "no member has this id"
        ids = first_of([row["member_id"] for row in rows], _SHOWN)
        raise ConfigError(f"--consumer-leaves {text}: {problem}; members are {ids}")
    if len(rows) == 1:
        raise ConfigError(f"--consumer-leaves {text}: {name} has no other member, so nobody would read")
    member_id = found[0] if named else shared.busiest(shared.held)
    after = shared.assigned(assignor_of(group), [m for m in shared.members if m.member_id != member_id])
    return GroupChange(facts, group, shared, f"member {member_id} leaves {name}", after)


def joining(facts: RunFacts, name: str, count: int) -> GroupChange:
    """So many members join a group; raises as ``leaving``."""
    group, _, shared = _group(facts, name, f"--consumers {name}")
    new = [Member(f"{NEW}{number}", tuple(shared.counts)) for number in range(count)]
    after = shared.assigned(assignor_of(group), [*shared.members, *new])
    return GroupChange(facts, group, shared, f"{plural(count, 'member')} {agree(count, 'joins', 'join')} {name}", after)


def _group(facts: RunFacts, name: str, option: str) -> tuple[_Row, Sequence[_Row], Sharing]:
    """The rows of a group and of its members, and how these share."""
    row = next((row for row in facts.consumer_groups if row["group_id"] == name), None)
    remedy = "give its outputs of kafka-consumer-groups.sh (docs/consumers.md), and plan again"
    if row is None:
        known = first_of(sorted(row["group_id"] for row in facts.consumer_groups), _SHOWN) or "none"
        raise ConfigError(f"{option}: the run knows no group {name}; known: {known}. Or {remedy}")
    if not assignor_of(row):
        text = f"the assignor of {name}, {row['assignor'] or 'unknown'}, is none of {', '.join(ASSIGNORS)}"
        raise ConfigError(f"{option}: {text} of classic groups, so what moves is not known")
    members = [member for member in facts.consumer_members if member["group_id"] == name]

    def rates_of(topic: str) -> dict[tuple[str, int], int]:
        rows = facts.partitions[facts.partitions["topic"] == topic]
        return {(topic, int(p)): int(rate) for p, rate in zip(rows["partition"], rows["in_bytes_per_s"], strict=True)}

    shared = sharing_of(row, members, rates_of)
    if shared is None:
        problem = f"what all members of {name} hold is not known, or a partition of its topics has no holder or two"
        raise ConfigError(f"{option}: {problem}; {remedy}")
    return row, members, shared
