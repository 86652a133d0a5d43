"""The controller's state of a partition that is reassigned (KIP-455).

References
----------
org.apache.kafka.controller.PartitionReassignmentReplicas and PartitionChangeBuilder, Kafka 4.3.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class InFlight:
    """A partition while it is reassigned.

    Parameters
    ----------
    replicas : tuple of int
        The target list in its order, then the replicas to remove, ascending.
    adding, removing : tuple of int
        Ascending.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """Replicas after completion."""
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def sources(self) -> tuple[int, ...]:
        """The replicas before the reassignment, which remain after a cancel. Their old order is lost."""
        return tuple(b for b in self.replicas if b not in self.adding)


@dataclass(frozen=True)
class Completed:
    """A partition when its reassignment is done."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def start(current: Sequence[int], target: Sequence[int]) -> InFlight:
    """The state right after the controller accepts the reassignment of a partition that was not in flight."""
    removing = tuple(sorted(set(current) - set(target)))
    adding = tuple(sorted(set(target) - set(current)))
    return InFlight((*target, *removing), adding, removing)


def cancel(state: InFlight) -> tuple[int, ...]:
    """Replicas after a cancel. They keep the order of the target, so the preferred leader may change."""
    return state.sources


def complete(state: InFlight, isr: Sequence[int]) -> Completed | None:
    """The partition if its reassignment completes with these in-sync replicas, else None.

    Notes
    -----
    All added replicas must be in sync, and at least one that stays. If fewer replicas are added than removed, the whole
    target must be in sync. A change of only the order completes at once and is never in flight: None too.
    """
    if not state.adding and not state.removing:
        return None
    in_sync = tuple(b for b in isr if b not in state.removing)
    target = state.target
    if state.removing and not (in_sync and target):
        return None
    required = set(state.adding)
    if len(state.adding) < len(state.removing):
        required |= set(target)
    return Completed(target, in_sync) if required <= set(in_sync) else None
