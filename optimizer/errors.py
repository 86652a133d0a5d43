"""Errors that people see: a tree, each with its exit code; messages give value, limit and remedy."""


class BallastError(Exception):
    """Root of every error that is meant for the user."""

    exit_code = 1


class ConfigError(BallastError):
    """Wrong use or configuration."""

    exit_code = 2


class InputError(BallastError):
    """An input can't be read at all (a row that can't be read goes to quarantine instead)."""

    exit_code = 1


class StageError(BallastError):
    """A stage lacks what an earlier one writes."""

    exit_code = 2


class WorkerGone(BallastError):
    """A Python process that works for Spark was ended from outside at every attempt."""

    said_by_spark = "Python worker exited unexpectedly"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"a Python process of {what} was ended at every attempt, as the system does when memory is out: "
            "give workers more memory, or fewer cores"
        )


class QualityGateFailed(BallastError):
    """A critical data-quality expectation failed."""

    exit_code = 3


class AuditFailed(BallastError):
    """A plan broke a rule: a bug in the planner; the plan is not written."""

    exit_code = 3


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
