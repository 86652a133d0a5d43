"""The option parser of every command. Only the standard library, because help must not wait for packages."""

import argparse
import re
import sys
from collections.abc import Sequence
from itertools import takewhile, zip_longest
from typing import Any

from optimizer.similar import did_you_mean

# Options that may be repeated: those that collect their values, and help.
_REPEATABLE = (argparse._AppendAction, argparse._HelpAction)


class OptionParser(argparse.ArgumentParser):
    """Accepts only unabbreviated options, each once. For an unknown option or choice it suggests the closest known one.

    Options with the actions ``append`` and ``extend`` may be repeated.

    Parameters
    ----------
    suggested : frozenset of str
        Options of other programs that a message may suggest.
    """

    def __init__(self, *, suggested: frozenset[str] = frozenset(), **kwargs: Any) -> None:
        kwargs = {"formatter_class": argparse.RawDescriptionHelpFormatter, **kwargs}
        super().__init__(allow_abbrev=False, **kwargs)
        self._suggested = suggested

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Check the options first, because argparse would report a missing required option before an unknown one."""
        words = sys.argv[1:] if args is None else list(args)
        # Options after a command are for the parser of the command.
        own = takewhile(is_option, words) if self._subparsers else words
        self._check_options(list(takewhile(lambda word: word != "--", own)))
        return super().parse_known_args(words, namespace)

    def _check_options(self, words: Sequence[str]) -> None:
        """End with an error if an option is unknown or given twice."""
        values: dict[argparse.Action, str] = {}
        for word, following in zip_longest(words, words[1:], fillvalue=""):
            name, equals, value = word.partition("=")
            if not is_option(name):
                continue
            action = self._option_string_actions.get(name)
            if action is None:
                self.error(f"there is no option {name}{self.instead_of(name)}")
            value = value if equals or action.nargs == 0 else following
            if action in values:
                values_text = f", {values[action]} and {value}" if action.nargs != 0 else ""
                self.error(f"{name} is given twice{values_text}: give it once")
            if not isinstance(action, _REPEATABLE):
                values[action] = value

    @property
    def options(self) -> frozenset[str]:
        """All options of this parser."""
        return frozenset(self._option_string_actions)

    def instead_of(self, name: str) -> str:
        """The suggestion that follows an unknown option in a message."""
        return did_you_mean(name, self.options | self._suggested)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = f"{did_you_mean(str(value), action.choices)}; choose from {', '.join(action.choices)}"
            raise argparse.ArgumentError(action, f"unknown {value!r}{known}")


def is_option(word: str) -> bool:
    """Whether argparse reads a word as an option. Negative numbers and texts with spaces are values."""
    return re.fullmatch(r"-[^\d\s]\S*", word) is not None
