"""The controller's state of a partition while it is reassigned (KIP-455).

References
----------
org.apache.kafka.controller.PartitionReassignmentReplicas, Kafka 4.3.1; of other releases: see ``CompletionRule``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray


class CompletionRule(Enum):
    """Which replicas must be in sync before a reassignment ends; releases in ``versions.completion_rule``.

    References
    ----------
    PartitionReassignmentReplicas.maybeCompleteReassignment; KAFKA-15665 (3.8), KAFKA-19975 (4.3).
    """

    ADDED = auto()  # all added replicas, and at least one replica of the target
    TARGET = auto()  # the whole target
    TARGET_IF_FEWER = auto()  # the whole target if the list gets shorter, else as ADDED


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


def complete(
    state: InFlight, isr: Sequence[int], rule: CompletionRule = CompletionRule.TARGET_IF_FEWER
) -> Completed | None:
    """The partition if its reassignment completes with these in-sync replicas, else None.

    Notes
    -----
    A change of only the order completes at once and is never in flight: None too.
    """
    if not state.adding and not state.removing:
        return None
    in_sync = tuple(b for b in isr if b not in state.removing)
    target = state.target
    if state.removing and not (in_sync and target):
        return None
    is_shorter = len(state.adding) < len(state.removing)
    needs_all = rule is CompletionRule.TARGET or (rule is CompletionRule.TARGET_IF_FEWER and is_shorter)
    return Completed(target, in_sync) if set(target if needs_all else state.adding) <= set(in_sync) else None


def reassignments_end(
    current: NDArray[np.int64], target: NDArray[np.int64], in_sync: NDArray[np.bool_], rule: CompletionRule
) -> NDArray[np.bool_]:
    """Whether each reassignment ends if the replicas that it adds get in sync and nothing else changes, (P,).

    Parameters
    ----------
    current, target : (P, W) int64
        Brokers by index, padded with -1; the widths may differ.
    in_sync : (P, W) bool
        Which replicas of ``current`` are in sync.

    Notes
    -----
    The rule of ``complete`` for many partitions. A list that keeps its brokers ends at once.
    """
    is_replica, is_target = current >= 0, target >= 0
    same = (target[:, :, None] == current[:, None, :]) & is_target[:, :, None]
    is_added = is_target & ~same.any(axis=2)
    is_removed = is_replica & ~same.any(axis=1)
    has = is_added | (same & in_sync[:, None, :]).any(axis=2)
    has_all = (has | ~is_target).all(axis=1)
    added, removed = is_added.sum(axis=1), is_removed.sum(axis=1)
    needs_all = {
        CompletionRule.ADDED: np.zeros_like(has_all),
        CompletionRule.TARGET: np.ones_like(has_all),
        CompletionRule.TARGET_IF_FEWER: added < removed,
    }[rule]
    return np.asarray((added + removed == 0) | (has.any(axis=1) & (has_all | ~needs_all)))
