"""The options of every job. Only the standard library: options are read before the environment is prepared."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from optimizer.cluster_policy import ONLY
from optimizer.configuration import section_of
from optimizer.option_parser import OptionParser

EPILOG = """\
Options override the configuration file, which overrides conf/default.toml: see docs/configuration.md.
exit codes: 0 done, 1 failed, 2 usage or configuration error, 3 refused: a data quality gate or the audit
failed, or the plan of the run is already approved or removed"""
# Set if this machine reads the inputs, so that Spark uses its disks and its network.
LOCAL_INPUT = "BALLAST_LOCAL_INPUT"


LARGEST_ID = 2**31 - 1  # a broker id of Kafka has 32 bits with sign


def broker_ids(text: str) -> list[int]:
    """Broker ids of an option, such as 3,7,12."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of broker ids: write 3 or 3,7,12")
    ids = [int(part) for part in text.split(",")]
    if max(ids) > LARGEST_ID:
        raise argparse.ArgumentTypeError(f"{max(ids)} is not a broker id: they end at {LARGEST_ID}")
    return ids


def _add_lists(policy: Any) -> None:
    """Add the options with lists. Repeated options add up."""
    for name, meaning in (
        ("--drain", "empty these brokers, e.g. 3,7"),
        ("--exclude-brokers", "give these brokers no new replica"),
        ("--demote", "move preferred leadership away from these brokers"),
    ):
        policy.add_argument(name, action="extend", type=broker_ids, metavar="IDS", help=f"{meaning}; may be repeated")
    for name, meaning in (("--topics", "plan only these topics"), ("--exclude-topics", "do not plan these topics")):
        policy.add_argument(name, action="append", metavar="REGEX", help=f"{meaning}; may be repeated")


class JobParser(OptionParser):
    """Suggests ``--set`` for a knob without its own option."""

    def instead_of(self, name: str) -> str:
        """The suggestion that follows an unknown option in a message."""
        knob = name.lstrip("-").replace("-", "_")
        section = section_of(knob)
        return f": give --set {section}.{knob}=VALUE" if section else super().instead_of(name)


def parser(description: str, *, suggested: frozenset[str] = frozenset()) -> JobParser:
    """The parser of every job; ``suggested`` are options of other programs that a message may suggest."""
    script = Path(sys.argv[0])
    result = JobParser(
        suggested=suggested,
        prog=f"spark-submit.sh {script.stem}" if script.suffix == ".py" else None,
        description=description,
        epilog=EPILOG,
    )
    result.add_argument(
        "--config", metavar="FILE", help="TOML file: clusters and the knobs that differ from the defaults"
    )
    result.add_argument("--run-id", help="names the run in every table (default: the time in UTC)")
    result.add_argument("--warehouse", metavar="DIR", help="folder of the Delta tables")
    result.add_argument("--output", metavar="DIR", help="folder of the files; a run gets a folder of its own in it")
    cluster = result.add_argument_group("one cluster, of the configuration file or without a file")
    cluster.add_argument(
        "--cluster", metavar="ID", help="its name in every table; alone: only this cluster of --config"
    )
    cluster.add_argument("--input", metavar="DIR", help="folder with outputs of Kafka's tools, capacities and metrics")
    cluster.add_argument("--bootstrap-server", metavar="HOST:PORT", help="live cluster")
    cluster.add_argument("--client-config", metavar="FILE", help="client properties (SASL, TLS) of the live connection")
    cluster.add_argument("--kafka-version", metavar="X.Y", help="its release, e.g. 3.9: see configuration.md")
    policy = result.add_argument_group("policy")
    _add_lists(policy)
    policy.add_argument("--only", choices=ONLY, help="fix only this; all other requests wait for another run")
    result.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="any other knob, once; value as in TOML"
    )
    return result
