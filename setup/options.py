"""Splits a command line into Spark's options, the job and the job's options."""

from dataclasses import dataclass, field

from execution.options import commands_with
from optimizer.job_options import parser
from optimizer.option_parser import is_option
from optimizer.similar import did_you_mean
from optimizer.units import listed
from setup.ballast_options import parser as parser_of_ballast

# Apache Spark 4.1 org.apache.spark.launcher.SparkSubmitOptionParser.
WITH_VALUE = frozenset(
    (
        "--archives",
        "--class",
        "--conf",
        "--deploy-mode",
        "--driver-class-path",
        "--driver-cores",
        "--driver-java-options",
        "--driver-library-path",
        "--driver-memory",
        "--exclude-packages",
        "--executor-cores",
        "--executor-memory",
        "--files",
        "--jars",
        "--keytab",
        "--kill",
        "--master",
        "--name",
        "--num-executors",
        "--packages",
        "--principal",
        "--properties-file",
        "--proxy-user",
        "--py-files",
        "--queue",
        "--remote",
        "--repositories",
        "--status",
        "--total-executor-cores",
        "-c",
    )
)
FLAGS = frozenset(("--load-spark-defaults", "--supervise", "--verbose", "--version", "-v"))
HELP = frozenset(("--help", "-h"))


class UsageError(Exception):
    """Wrong use of the command line: exit code 2. The message refers to the help of ``job``, if it is known."""

    def __init__(self, message: str, job: str = "") -> None:
        super().__init__(message)
        self.job = job


@dataclass
class CommandLine:
    """A command line in parts.

    Parameters
    ----------
    spark : list of (str, str or None)
        Spark's options in their order, with values; None for flags.
    job : str
        Name of the job; empty if there is none.
    arguments : list of str
        Arguments of the job.
    help : bool
        Whether --help was given: help of the job, or of the script without a job.
    """

    spark: list[tuple[str, str | None]] = field(default_factory=list)
    job: str = ""
    arguments: list[str] = field(default_factory=list)
    help: bool = False

    def values(self, name: str) -> list[str]:
        """All values of one of Spark's options."""
        return [value for option, value in self.spark if option == name and value is not None]

    def conf(self, name: str) -> str | None:
        """The last value that ``--conf`` gives to a property."""
        pairs = (pair.partition("=") for pair in self.values("--conf") + self.values("-c"))
        values = [value for key, _, value in pairs if key.strip() == name]
        return values[-1] if values else None


def split(words: list[str]) -> CommandLine:
    """Split a command line. Spark's options may be anywhere before ``--``; everything after it goes to the job.

    Raises
    ------
    UsageError
        For an unknown option before the job, and for an option of Spark without its value.
    """
    line = CommandLine()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            line.arguments += rest
            break
        if name in WITH_VALUE:
            line.spark.append((name, value if equals else _value(name, rest)))
        elif word in FLAGS:
            line.spark.append((word, None))
        elif word in HELP:
            line.help = True
        elif line.job:
            line.arguments.append(word)
        elif word.startswith("-"):
            similar = "" if name in parser("").options else did_you_mean(name, WITH_VALUE | FLAGS)
            raise UsageError(f"{name} is not an option of Spark{similar}; give options of a job after its name")
        else:
            line.job = word
    return line


def check_arguments(line: CommandLine) -> None:
    """Refuse unknown job options before Java starts; the message suggests an option of Spark or of ./ballast.

    Raises
    ------
    UsageError
    """
    job = parser("", suggested=WITH_VALUE | FLAGS)
    for name in (word.partition("=")[0] for word in line.arguments):
        if is_option(name) and name not in job.options:
            commands = [f"./ballast {command}" for command in commands_with(name, parser_of_ballast().commands)]
            owner = f" of a job: it is an option of {listed(commands)}" if commands else ""
            raise UsageError(f"there is no option {name}{owner or job.instead_of(name)}", line.job)


def _value(name: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"{name} needs a value")
    return rest.pop(0)
