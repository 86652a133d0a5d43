"""What a follower keeps of its log under a new leader (KIP-101, KIP-279, KIP-595): the rules behind ``lost_bytes``.

References
----------
org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.endOffsetFor and truncateFromEnd;
kafka.cluster.Partition.readRecords (the leader compares the follower's last epoch with its own log);
kafka.server.AbstractFetcherThread.getOffsetTruncationState; Kafka 4.3.1.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Log:
    """A replica's log: which epoch wrote its records.

    Parameters
    ----------
    epochs : tuple of (epoch, first offset)
        Both ascend.
    end : int
        The offset of the next record.
    """

    epochs: tuple[tuple[int, int], ...]
    end: int

    def last_of(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to this one, and where its records end; None if all known epochs are smaller."""
        if self.epochs and self.epochs[-1][0] == epoch:
            return epoch, self.end
        later = next((start for known, start in self.epochs if known > epoch), None)
        if later is None:
            return None
        return max((known for known, _ in self.epochs if known <= epoch), default=epoch), later

    def cut(self, offset: int) -> "Log":
        """The log without records from an offset on."""
        if offset >= self.end:
            return self
        return Log(tuple(entry for entry in self.epochs if entry[1] < offset), offset)


def follow(leader: Log, follower: Log) -> Log | None:
    """The follower's log when its next fetch is answered with records; None if the leader knows no such epoch."""
    while follower.epochs:
        epoch = follower.epochs[-1][0]
        ours = leader.last_of(epoch)
        if ours is None:
            return None
        if ours[0] >= epoch and ours[1] >= follower.end:
            return follower
        theirs = follower.last_of(ours[0])
        # The follower may lack the leader's epoch: it keeps what is older and asks again.
        end = ours[1] if theirs is None else theirs[1] if theirs[0] != ours[0] else min(theirs[1], ours[1])
        follower = follower.cut(min(end, follower.end))
    return follower
