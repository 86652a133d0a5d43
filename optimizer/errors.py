"""Errors that people see, each with its exit code. Messages give value, limit and remedy."""

from collections.abc import Iterable, Mapping


def bullets(lines: Iterable[str]) -> str:
    """Lines for the end of a message, each with a dash on a line of its own."""
    return "".join(f"\n- {line}" for line in lines)


class BallastError(Exception):
    """Base of all errors for the user; ``verdict`` is the cluster's verdict in the table ``verdicts``."""

    exit_code = 1
    verdict = "failed"


class _Problems(BallastError):
    """Several problems in one error, one line each."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(problems[0] if len(problems) == 1 else f"{len(problems)} problems:{bullets(problems)}")


class ConfigError(_Problems):
    """Wrong use or configuration."""

    exit_code = 2
    verdict = "refused"


class InputError(_Problems):
    """An input can't be read at all. Single unreadable rows are quarantined instead."""

    verdict = "unreadable"


class Unreadable(BallastError):
    """Clusters that can't be read. The run continues with the others.

    Parameters
    ----------
    errors : mapping of str to BallastError
        The reason, by cluster.
    """

    def __init__(self, errors: Mapping[str, BallastError]) -> None:
        super().__init__("\n".join(f"cluster {cluster}: {error}" for cluster, error in errors.items()))
        self.errors = errors


class StageError(BallastError):
    """A stage lacks tables or rows of an earlier stage."""

    exit_code = 2


class RowsChanged(BallastError):
    """The rows that a stage reads are not those that an earlier stage wrote; one problem per table."""

    def __init__(self, run_id: str, *problems: str) -> None:
        listed = problems[0] if len(problems) == 1 else bullets(problems)
        super().__init__(f"run {run_id!r} was changed since its stages recorded what they wrote: {listed}")


class WorkerGone(BallastError):
    """A Python worker of Spark was killed at every attempt."""

    spark_message = "Python worker exited unexpectedly"

    def __init__(self, stage_work: str) -> None:
        super().__init__(
            f"a Python process of {stage_work} was killed at every attempt. The system does that when memory runs out: "
            "give workers more memory, or use fewer cores"
        )


class UnderWay(BallastError):
    """Another process executes the same run."""


class DiskFull(BallastError):
    """No space is left on a disk."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"the disk of {folder} is full: free space there and start the run again")


class AlreadyApproved(BallastError):
    """The plan of this run is approved, so the run is not planned again."""

    exit_code = 3


class Removed(BallastError):
    """The plan of this run was removed, so the run is not planned again."""

    exit_code = 3


class QualityGateFailed(BallastError):
    """A critical data-quality expectation failed."""

    exit_code = 3
    verdict = "refused"


class AuditFailed(BallastError):
    """A plan is refused, and none of its files is written.

    Either it breaks a rule, which is a bug of the planner. Or its share of unexplained partitions is above
    ``policy.max_unexplained``, which need not be a bug. Or the disks have no space for its copies in any order.
    """

    exit_code = 3
    verdict = "refused"


class KafkaError(BallastError):
    """An input that Kafka's code would refuse, with Kafka's exception class and message.

    Parameters
    ----------
    exception : str
        Simple name of Kafka's exception class.
    message : str or None
        Kafka's text; None if the text is from a JSON library and is not reproduced.
    """

    def __init__(self, exception: str, message: str | None) -> None:
        super().__init__(message or exception)
        self.exception = exception
        self.message = message
