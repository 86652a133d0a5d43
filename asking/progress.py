"""Progress of answers that take long, on standard error."""

import sys
from time import monotonic

from asking.run_facts import RunFacts
from optimizer.units import human_time

# CPU time of a plan in memory over that of its shards in the job: leaders, bounds, waves and losses come on top.
# Measured on the sample and on 100 brokers with 20,000 partitions.
_OVER_SHARDS = 2.7
_LONG_SECONDS = 10  # from here on, people want to know before they wait


def say_estimate(facts: RunFacts, plans: int, words: str) -> None:
    """Say how much CPU time so many plans take, if it is long.

    Parameters
    ----------
    words : str
        What is planned, such as "2 plans".
    """
    seconds = plans * facts.solve_seconds * _OVER_SHARDS
    if seconds >= _LONG_SECONDS:
        sys.stderr.write(f"{words}: about {human_time(seconds)} of CPU\n")


def say_plan(words: str) -> None:
    """Say which plan is made now."""
    sys.stderr.write(f"{words}\n")


class Search:
    """The plans of a search, of which nobody knows the number before. Each is said once the search takes long."""

    def __init__(self) -> None:
        self._start = monotonic()

    def say(self, words: str) -> None:
        """Say which plan is made now, if the search takes long already."""
        if monotonic() - self._start >= _LONG_SECONDS:
            say_plan(words)
