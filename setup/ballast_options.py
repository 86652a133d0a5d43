"""The command line of ./ballast: commands of ``execution`` and ``asking``. Uses only the standard library."""

import asking.options
import execution.options
from execution.options import Parser, parser_of

COMMANDS = {**execution.options.COMMANDS, **asking.options.COMMANDS}


def parser() -> Parser:
    """All commands with their options."""
    return parser_of([execution.options.add_commands, asking.options.add_commands])


def package_of(command: str) -> str:
    """The package that runs a command."""
    return "asking" if command in asking.options.COMMANDS else "execution"
