"""What every command line of Ballast shares; only the standard library, because help must not wait for packages."""

import argparse
import re
import sys
from collections.abc import Sequence
from itertools import takewhile, zip_longest
from typing import Any

from optimizer.similar import did_you_mean

# What may be given more than once: options that collect their values, and help.
_MANY = (argparse._AppendAction, argparse._HelpAction)


class OptionParser(argparse.ArgumentParser):
    """Takes whole options, each once; names the known option or choice that is closest to an unknown one.

    Options with the actions ``append`` and ``extend`` may be repeated.

    Parameters
    ----------
    suggested : frozenset of str
        Options of other programs that may have been meant.
    """

    def __init__(self, *, suggested: frozenset[str] = frozenset(), **kwargs: Any) -> None:
        kwargs = {"formatter_class": argparse.RawDescriptionHelpFormatter, **kwargs}
        super().__init__(allow_abbrev=False, **kwargs)
        self._suggested = suggested

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Check the options first: argparse would rather say that a required one is missing."""
        words = sys.argv[1:] if args is None else list(args)
        # What stands behind a command is for the command's own parser.
        own = takewhile(is_option, words) if self._subparsers else words
        self._check_options(list(takewhile(lambda word: word != "--", own)))
        return super().parse_known_args(words, namespace)

    def _check_options(self, words: Sequence[str]) -> None:
        """End with an error for an unknown option, and for one that is given twice."""
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
                both = f", {values[action]} and {value}" if action.nargs != 0 else ""
                self.error(f"{name} is given twice{both}: give it once")
            if not isinstance(action, _MANY):
                values[action] = value

    @property
    def options(self) -> frozenset[str]:
        """All of its options."""
        return frozenset(self._option_string_actions)

    def instead_of(self, name: str) -> str:
        """What a message adds behind an unknown option."""
        return did_you_mean(name, self.options | self._suggested)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = f"{did_you_mean(str(value), action.choices)}; choose from {', '.join(action.choices)}"
            raise argparse.ArgumentError(action, f"unknown {value!r}{known}")


def is_option(word: str) -> bool:
    """Whether argparse takes a word for an option: negative numbers and texts with spaces are values."""
    return re.fullmatch(r"-[^\d\s]\S*", word) is not None
