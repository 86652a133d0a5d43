"""The known name that is closest to an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The suggestion that follows an unknown name in a message; empty if no known name is close.

    >>> did_you_mean("aprove", ["show", "approve"])
    " (did you mean 'approve'?)"
    """
    closest = get_close_matches(name, sorted(known), n=1)
    return f" (did you mean {closest[0]!r}?)" if closest else ""
