"""The rules of a policy, one broker and one partition at a time, as docs/configuration.md and docs/findings.md say."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from optimizer.cluster_policy import ClusterPolicy
from optimizer.settings import Settings

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Host:
    """A broker under the policy."""

    id: int
    rack: str | None
    state: str
    accepts: bool
    leads: bool
    empties: bool
    pins: Sequence[str]
    failed: str | None


def host_of(facts: Row, requests: ClusterPolicy, rack_policy: str) -> Host:
    """What the policy says about a broker."""
    number, state = facts["broker_id"], facts["state"]
    is_drained = number in requests.drain_brokers
    if state == "alive" and is_drained:
        state = "draining"
    elif state == "alive" and not facts["holds"]:
        state = "new"
    serves = state in ("alive", "new")
    empties = {
        "": state == "dead" or is_drained,
        "drain": state == "dead" or is_drained,
        "racks": state == "dead",
    }.get(requests.only, False)
    return Host(
        id=number,
        rack=facts["rack"] if rack_policy == "spread" else None,
        state=state,
        accepts=serves and facts["closed_cause"] is None and number not in requests.exclude_brokers,
        leads=serves and number not in requests.demote_brokers,
        empties=empties,
        pins=sorted(p.topics for p in requests.pins if number in p.brokers or facts["rack"] in p.racks),
        failed=facts["closed_reason"] if facts["closed_cause"] == "failed_directory" else None,
    )


class Rules:
    """The rules of one cluster.

    Parameters
    ----------
    hosts : sequence of Host
    settings : Settings
    requests : ClusterPolicy
    """

    def __init__(self, hosts: Sequence[Host], settings: Settings, requests: ClusterPolicy) -> None:
        self.hosts = {host.id: host for host in hosts}
        self.policy, self.requests = settings.policy, requests
        self.is_strict = settings.clusters[0].kafka_version != "4.3"
        self.racks_matter = any(h.rack for h in hosts) and all(h.rack for h in hosts if h.accepts)

    def _rack(self, broker: int) -> str:
        """A broker without a rack is alone, as is every broker if racks do not matter."""
        rack = self.hosts[broker].rack if self.racks_matter else None
        return rack or f"alone {broker}"

    def _pinned(self, topic: str) -> list[int] | None:
        pins = [pin.topics for pin in self.requests.pins if re.fullmatch(pin.topics, topic)]
        if not pins:
            return None
        return sorted(h.id for h in self.hosts.values() if all(pin in h.pins for pin in pins))

    def _is_excluded(self, topic: str) -> bool:
        def matches(patterns: Sequence[str]) -> bool:
            return any(re.fullmatch(pattern, topic) for pattern in patterns)

        return matches(self.policy.exclude_topics) or bool(self.policy.topics and not matches(self.policy.topics))

    def decide(self, facts: Row) -> dict[str, Any]:
        """The columns that the policy sets for a partition."""
        topic, replicas = facts["topic"], facts["replicas"]
        pinned, now = self._pinned(topic), len(replicas)
        requested = now
        if not self._is_excluded(topic):
            factors = [f.factor for f in self.requests.replication_factors if re.fullmatch(f.topics, topic)]
            requested = factors[0] if factors else now
        usable = self._usable(replicas, pinned, shrinks=requested < now)
        factor_cause = factor_refused = None
        if requested != now and usable < requested:
            factor_cause = "too_few_brokers"
            factor_refused = (
                f"{_plural(requested, 'replica')} requested, but only {_plural(usable, 'broker')} can hold them"
            )
        elif requested < now and requested < (facts["min_insync_replicas"] or 0):
            factor_cause = "under_min_in_sync"
            least = facts["min_insync_replicas"]
            factor_refused = f"{_plural(requested, 'replica')} requested, but min.insync.replicas is {least}"
        keeps_stuck = self._keeps_stuck(facts, pinned, max(now - requested, 0))
        if not factor_cause and requested < now and keeps_stuck and not self.is_strict:
            factor_cause, factor_refused = (
                "out_of_sync",
                f"{_plural(requested, 'replica')} requested, but {_stuck(facts)}",
            )
        factor = now if factor_cause else requested
        leaves = any(self.hosts[b].empties for b in replicas)
        cause, reason = self._fixed(facts, pinned, usable, factor)
        if cause in (None, "topic_excluded") and keeps_stuck and self.is_strict and (cause is None or leaves):
            mobility = "fixed" if cause else "order_only"
            cause, reason = "out_of_sync", _stuck(facts)
        else:
            mobility = {None: "free", "topic_excluded": "forced_only"}.get(cause, "fixed")
        if self.requests.only:
            was_free = mobility in ("free", "order_only")
            mobility = self._only("free" if was_free else mobility, replicas, pinned)
            if cause == "out_of_sync" and was_free:
                waits = mobility == "racks_only" or (mobility == "forced_only" and leaves)
                mobility, cause = ("fixed", cause) if waits else (mobility, None)
            cause, reason = (cause, reason) if cause else ("only", "excluded by only")
            factor_cause = factor_refused = None
        return {
            **{"mobility": mobility, "fixed_cause": cause, "fixed_reason": reason, "pinned_brokers": pinned},
            **{"factor_cause": factor_cause, "factor_refused": factor_refused},
            "replication_factor": factor if mobility == "free" else now,
        }

    def _keeps_stuck(self, facts: Row, pinned: Sequence[int] | None, dropped: int) -> bool:
        """Whether a replica out of sync stays, unless a repair of the racks moves the only one."""
        replicas = facts["replicas"]
        stuck = [
            b
            for b in replicas
            if b not in facts["isr"] and not self.hosts[b].empties and (pinned is None or b in pinned)
        ]
        if len(stuck) == 1 and not any(self.hosts[b].empties for b in replicas):
            used, (cap, least) = Counter(map(self._rack, replicas)), self._rack_limits(len(replicas), pinned)
            rack = self._rack(stuck[0])
            is_short = any(used[other] < n for other, n in least.items())
            if used[rack] > cap or (is_short and used[rack] > least.get(rack, 0)):
                return False
        return len(stuck) > dropped

    def _usable(self, replicas: Sequence[int], pinned: Sequence[int] | None, *, shrinks: bool) -> int:
        count = 0
        for host in self.hosts.values():
            leaves = host.state in ("dead", "fenced") if shrinks and pinned is None else host.empties
            may_hold = host.accepts or (host.id in replicas and not leaves)
            count += may_hold and (pinned is None or host.id in pinned)
        return count

    def _fixed(
        self, facts: Row, pinned: Sequence[int] | None, usable: int, factor: int
    ) -> tuple[str | None, str | None]:
        hosts = self.hosts
        if facts["controller_replicas"] is not None:
            for broker in sorted(facts["adding_replicas"] or ()):
                if hosts[broker].state in ("dead", "fenced"):
                    words = f"its reassignment cannot end: broker {broker} is {hosts[broker].state}"
                    return "move_cannot_end", words
            return "in_flight", "its reassignment is still running"
        if facts["leader"] is None:
            failed = {b: hosts[b].failed for b in sorted(facts["replicas"])}
            if all(failed.values()):
                broker, text = next(iter(failed.items()))
                return "failed_directory", f"leaderless: {text} of broker {broker}"
            return "leaderless", "leaderless"
        if not facts["isr"]:
            return "no_in_sync_replica", "no in-sync replica"
        for broker in sorted(facts["replicas"]):
            if hosts[broker].state == "fenced" and not hosts[broker].empties:
                return "on_fenced_broker", f"a replica on fenced broker {broker}"
        if pinned is not None and usable < factor:
            words = f"its pin allows only {_plural(usable, 'broker')} for {_plural(factor, 'replica')}"
            return "pin_too_small", words
        if "confluent.placement.constraints" in (facts["configs"] or ""):
            return "own_placement_rule", "placed by its own rule confluent.placement.constraints"
        if self._is_excluded(facts["topic"]):
            return "topic_excluded", "topic excluded"
        return None, None

    def _only(self, mobility: str, replicas: Sequence[int], pinned: Sequence[int] | None) -> str:
        is_free = mobility == "free"
        if self.requests.only == "drain":
            return "forced_only" if is_free else mobility
        if self.requests.only == "racks":
            return "racks_only" if is_free and self.breaks_racks(replicas, pinned) else "fixed"
        if self.requests.only == "leaders":
            return "order_only" if is_free else "fixed"
        return "order_only" if is_free and replicas[0] in self.requests.demote_brokers else "fixed"

    def breaks_racks(self, replicas: Sequence[int], pinned: Sequence[int] | None) -> bool:
        """Whether a list has more replicas in a rack than necessary, or fewer than its share, within its pin."""
        used, (cap, least) = Counter(map(self._rack, replicas)), self._rack_limits(len(replicas), pinned)
        return any(used[rack] < n for rack, n in least.items()) or any(count > cap for count in used.values())

    def _rack_limits(self, factor: int, pinned: Sequence[int] | None) -> tuple[int, dict[str, int]]:
        """The most replicas in a rack, and the least in each, within a pin."""
        named = [h for h in self.hosts.values() if pinned is None or h.id in pinned]
        open_ = Counter(self._rack(h.id) for h in named if h.accepts and not h.empties)
        keeping = Counter(self._rack(h.id) for h in named if not h.empties)
        if not open_:
            return factor, {}
        cap = _cap(factor, open_ if factor <= sum(open_.values()) else keeping)
        floor = factor // len(open_) if factor > len(open_) else 0
        return cap, {rack: min(floor, size) for rack, size in open_.items()}

    def mosts(self, factors: Sequence[int]) -> tuple[int | None, int | None]:
        """The limits of a topic with partitions of these replication factors."""
        open_ = Counter(self._rack(h.id) for h in self.hosts.values() if h.accepts and not h.empties)
        leaders = sum(h.leads for h in self.hosts.values())
        share = sum((_busiest(factor, open_) for factor in factors), Fraction(0))
        fair = (share, Fraction(len(factors), leaders) if leaders else None)
        spreads = (self.policy.topic_spread, self.policy.topic_leader_spread)
        first, second = (
            math.ceil(round(spread * float(part), 6)) if spread and part is not None else None
            for spread, part in zip(spreads, fair, strict=True)
        )
        return first, second


def _stuck(facts: Row) -> str:
    stuck = [b for b in facts["replicas"] if b not in facts["isr"]]
    end, verb, kept = ("s", "are", "them") if len(stuck) > 1 else ("", "is", "it")
    brokers = f"broker{end} {', '.join(map(str, stuck))} {verb} out of sync"
    return f"{brokers}: Kafka would not end a reassignment that keeps {kept}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _cap(factor: int, sizes: Mapping[str, int]) -> int:
    """The least k with which racks of these sizes have places for all replicas; the largest size if none has."""
    most = max(sizes.values())
    return next((k for k in range(1, most) if sum(min(k, n) for n in sizes.values()) >= factor), most)


def _busiest(factor: int, sizes: Mapping[str, int]) -> Fraction:
    """Formula 10 of docs/solver.md, by trying each point where the sum bends, and the points between."""
    cap, racks = _cap(factor, sizes), len(sizes)
    if sum(min(n, cap) for n in sizes.values()) < factor:
        return Fraction(1)
    floor = factor // racks if factor > racks else 0
    least = max(Fraction(min(floor, n), n) for n in sizes.values())
    bends = sorted({Fraction(min(cap, n), n) for n in sizes.values()})
    for low, high in zip([Fraction(0), *bends], bends, strict=False):
        full = sum(min(n, cap) for n in sizes.values() if Fraction(min(cap, n), n) <= low)
        slope = sum(n for n in sizes.values() if Fraction(min(cap, n), n) > low)
        if full + high * slope >= factor:
            return max(least, Fraction(factor - full, slope))
    return max(least, bends[-1])
