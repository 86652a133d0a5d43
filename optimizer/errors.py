"""Errors that people see: a tree, each with its exit code; messages give value, limit and remedy."""

from collections.abc import Mapping


class BallastError(Exception):
    """Root of every error that is meant for the user; ``verdict``: what it makes of a cluster (table ``verdicts``)."""

    exit_code = 1
    verdict = "failed"


class _Problems(BallastError):
    """What is wrong, one line each; all of it is told at once."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        listed = "".join(f"\n- {problem}" for problem in problems)
        super().__init__(problems[0] if len(problems) == 1 else f"{len(problems)} problems:{listed}")


class ConfigError(_Problems):
    """Wrong use or configuration."""

    exit_code = 2
    verdict = "refused"


class InputError(_Problems):
    """An input can't be read at all (a row that can't be read goes to quarantine instead)."""

    verdict = "unreadable"


class Unreadable(BallastError):
    """Clusters that can't be read; the others can go on without them.

    Parameters
    ----------
    errors : mapping of str to BallastError
        Why, by cluster.
    """

    def __init__(self, errors: Mapping[str, BallastError]) -> None:
        super().__init__("\n".join(f"cluster {cluster}: {error}" for cluster, error in errors.items()))
        self.errors = errors


class StageError(BallastError):
    """A stage lacks what an earlier one writes."""

    exit_code = 2


class RowsChanged(BallastError):
    """Rows that a stage reads are no longer those that an earlier stage wrote: one problem for each table."""

    def __init__(self, run_id: str, *problems: str) -> None:
        listed = problems[0] if len(problems) == 1 else "".join(f"\n- {problem}" for problem in problems)
        super().__init__(f"run {run_id!r} was changed since its stages recorded what they wrote: {listed}")


class WorkerGone(BallastError):
    """A Python process that works for Spark was ended from outside at every attempt."""

    said_by_spark = "Python worker exited unexpectedly"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"a Python process of {what} was ended at every attempt. The system does that when memory runs out: "
            "give workers more memory, or fewer cores"
        )


class UnderWay(BallastError):
    """Another process works on the same run."""


class DiskFull(BallastError):
    """No space is left on a disk."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"the disk of {folder} is full: make room there, and start the run again")


class AlreadyApproved(BallastError):
    """A person has approved the plan of this run: it is not planned again."""

    exit_code = 3


class QualityGateFailed(BallastError):
    """A critical data-quality expectation failed."""

    exit_code = 3
    verdict = "refused"


class AuditFailed(BallastError):
    """A plan is refused, and no file of it is written.

    It breaks a rule: the planner has a bug. Or it leaves more unexplained than ``policy.max_unexplained``: that need
    not be a bug. Or the disks have no room for its copies in any order.
    """

    exit_code = 3
    verdict = "refused"


class KafkaError(BallastError):
    """What Kafka's own code would refuse, with its exception class and message.

    Parameters
    ----------
    exception : str
        Simple name of Kafka's exception class.
    message : str or None
        Kafka's text; None where the text belongs to a JSON library and is not reproduced.
    """

    def __init__(self, exception: str, message: str | None) -> None:
        super().__init__(message or exception)
        self.exception = exception
        self.message = message
