"""Entry point of ./ballast: installs the packages once, then replaces this process by the command."""

import os
import sys
from collections.abc import Mapping

from execution.options import parser
from setup.environment import prepare, say
from setup.launch import launch
from setup.paths import HOME, SetupError, venv_python


def check(words: list[str]) -> None:
    """Print the help or a usage error and exit; this needs no packages. Returns for a valid command line."""
    ballast = parser()
    if words and words[0].isidentifier() and (HOME / "jobs" / f"{words[0]}.py").is_file():
        ballast.error(f"{words[0]} is a job: run ./spark-submit.sh {words[0]}")
    ballast.parse_args(words)


def main(words: list[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run; returns the exit code."""
    check(words)
    try:
        prepare(spark=False)
    except SetupError as error:
        say(str(error))
        return 1
    return launch([str(venv_python()), "-P", "-m", "execution", *words], {**environ, "PYTHONPATH": str(HOME)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
