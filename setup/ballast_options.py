"""The command line of ./ballast: commands of ``execution``, ``asking`` and ``tour``. Uses only the standard library."""

import asking.options
import execution.options
import tour.options
from execution.options import Parser, parser_of

COMMANDS = {**execution.options.COMMANDS, **asking.options.COMMANDS, **tour.options.COMMANDS}


def parser() -> Parser:
    """All commands with their options."""
    return parser_of([execution.options.add_commands, asking.options.add_commands, tour.options.add_commands])


def package_of(command: str) -> str:
    """The package that runs a command."""
    packages = {"asking": asking.options.COMMANDS, "tour": tour.options.COMMANDS}
    return next((name for name, commands in packages.items() if command in commands), "execution")
