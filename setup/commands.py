"""Entry point of ./ballast: installs the packages once, then replaces this process by the command."""

import os
import sys
from collections.abc import Mapping

from setup.ballast_options import package_of, parser
from setup.environment import prepare, say
from setup.launch import launch
from setup.paths import HOME, SetupError, venv_python


def check(words: list[str]) -> str:
    """Print the help or a usage error and exit; this needs no packages. Returns the command of a valid command line."""
    ballast = parser()
    if words and words[0].isidentifier() and (HOME / "jobs" / f"{words[0]}.py").is_file():
        ballast.error(f"{words[0]} is a job: run ./spark-submit.sh {words[0]}")
    return str(ballast.parse_args(words).command)


def main(words: list[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run; returns the exit code."""
    package = package_of(check(words))
    try:
        prepare(spark=False)
    except SetupError as error:
        say(str(error))
        return 1
    return launch([str(venv_python()), "-P", "-m", package, *words], {**environ, "PYTHONPATH": str(HOME)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
