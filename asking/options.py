"""The options of the commands that answer questions. Uses only the standard library, as ``execution.options``."""

import argparse
import re
from typing import Any

from execution.options import Parser, add_command
from optimizer.cluster_policy import ONLY
from optimizer.job_options import LARGEST_ID, broker_ids
from optimizer.option_parser import OptionParser
from optimizer.units import BYTE_UNITS

COMMANDS = {
    "ask": "answer what-if questions about the plan of one cluster; changes nothing",
    "place": "place the partitions of a new topic, or more partitions of an old one",
    "judge": "measure another tool's plan, and compare it with Ballast's",
    "compare": "show what changed between two runs: cluster, requests, plan",
}


def add_commands(commands: Any) -> None:
    """Add the commands."""
    _add_ask(commands)
    _add_place(commands)
    _add_judge(commands)
    _add_compare(commands)


def variant_parser() -> OptionParser:
    """The options of one ``--variant``."""
    parser = OptionParser(prog="ballast ask --variant", add_help=False)
    add_question(parser)
    return parser


def add_question(command: argparse.ArgumentParser) -> None:
    """Add the options of one question."""
    policy = command.add_argument_group("requests, in addition to those of the run")
    for name, meaning in (
        ("--drain", "empty these brokers, e.g. 17,18"),
        ("--keep", "do not empty these brokers, which the run drains"),
        ("--exclude-brokers", "give these brokers no new replica"),
        ("--demote", "move preferred leadership away from these brokers"),
    ):
        policy.add_argument(name, action="extend", type=broker_ids, default=[], metavar="IDS", help=meaning)
    policy.add_argument("--only", choices=(*ONLY, "none"), help="fix only this; none: everything")
    text = "any other setting of policy, solver, schedule or emit, once; value as in TOML"
    policy.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help=text)
    cluster = command.add_argument_group("another cluster")
    text = "add brokers with these unused ids; needs --like"
    cluster.add_argument("--add-broker", action="extend", type=broker_ids, default=[], metavar="IDS", help=text)
    cluster.add_argument("--like", type=int, metavar="ID", help="new brokers have the capacities of this broker")
    text = "racks of the new brokers, one for all or one each (default: those with the least capacity)"
    cluster.add_argument("--rack", action="extend", type=_names, default=[], metavar="RACKS", help=text)
    text = "the broker has a disk of this size, e.g. 17=8TB; may be repeated"
    cluster.add_argument("--disk", action="append", type=_disk, default=[], metavar="ID=BYTES", help=text)
    text = "the broker is in this rack, e.g. 17=eu-west-1c; may be repeated"
    cluster.add_argument("--rack-of", action="append", type=_rack_of, default=[], metavar="ID=RACK", help=text)
    text = "these brokers are dead and do not return"
    cluster.add_argument("--lose-broker", action="extend", type=broker_ids, default=[], metavar="IDS", help=text)
    text = "all brokers of these racks are dead and do not return"
    cluster.add_argument("--lose-rack", action="extend", type=_names, default=[], metavar="RACKS", help=text)
    text = "the topic has so many partitions, e.g. orders=24; Kafka places the new ones, and each gets an even share"
    cluster.add_argument("--partitions", action="append", type=_partitions, default=[], metavar="TOPIC=N", help=text)
    text = "the topics (regex, whole name) keep records only so long, e.g. 'logs[.].*=6h': what does a plan copy then"
    cluster.add_argument("--retention", action="append", type=_retention, default=[], metavar="TOPICS=TIME", help=text)
    for name, what in (("--load", "sizes and rates"), ("--sizes", "sizes"), ("--rates", "rates")):
        cluster.add_argument(name, type=_factor, metavar="FACTOR", help=f"{what} times this factor")
    cluster.add_argument("--topics", metavar="REGEX", help="only of these topics (whole name)")


def _add_ask(commands: Any) -> None:
    text = "Answer what-if questions: plan the cluster of a finished run again, with other requests or other facts."
    ask = add_command(commands, "ask", COMMANDS["ask"], text)
    _run_and_cluster(ask)
    add_question(ask)
    answers = ask.add_argument_group("answers")
    text = "another question, in a column of this name; may be repeated"
    answers.add_argument("--variant", action="append", default=[], metavar="'NAME: OPTIONS'", help=text)
    answers.add_argument("--variants", metavar="FILE", help="TOML file with questions: [[variants]] name, options")
    text = "more columns, about the requests of the run: wider bands, only what is urgent, half the bytes, no limit"
    answers.add_argument("--alternatives", action="store_true", help=text)
    text = "choose the brokers that are cheapest to empty, so many"
    answers.add_argument("--retire", type=_count, metavar="N", help=text)
    text = "--retire: choose from these brokers, e.g. 101-106,110 (default: all that accept replicas and have some)"
    answers.add_argument("--of", type=_ranges, metavar="IDS", help=text)
    text = "count new brokers with the capacities of this broker; needs --disk-below"
    answers.add_argument("--how-many-like", type=int, metavar="ID", help=text)
    text = "--how-many-like: largest share of a disk, e.g. 0.7"
    answers.add_argument("--disk-below", type=_share, metavar="SHARE", help=text)
    text = "--how-many-like: also after any one rack is lost and rebuilt"
    answers.add_argument("--survive-rack", action="store_true", help=text)
    text = "when are the disks too small if everything grows so much in a month, e.g. 4%%/month"
    answers.add_argument("--grow", type=_growth, metavar="PERCENT", help=text)
    text = "--grow: the last month to look at, e.g. 2027-12 (default: in five years)"
    answers.add_argument("--until", type=_month, metavar="MONTH", help=text)
    text = "the fewest batches in which brokers may restart together, before and after the plan"
    answers.add_argument("--restart", action="store_true", help=text)
    text = "--restart: keep so many replicas above min.insync.replicas where there are so many"
    answers.add_argument("--spare", type=_count, metavar="N", help=text)
    text = "--restart: at most so many brokers in a batch"
    answers.add_argument("--batches-of", type=_count, metavar="N", help=text)
    text = "--restart: at most this share of the clients' bytes on the leaders of a batch, e.g. 0.25"
    answers.add_argument("--batch-load", type=_share, metavar="SHARE", help=text)
    text = "--restart: how long a broker is down (default: 5)"
    answers.add_argument("--restart-minutes", type=_count, metavar="N", help=text)
    text = "--restart: output of kafka-metadata-quorum.sh describe --status, if brokers are controllers too"
    answers.add_argument("--quorum", metavar="FILE", help=text)
    text = "what moves and stops if this member leaves the consumer group (default: its busiest member)"
    answers.add_argument("--consumer-leaves", metavar="GROUP[=MEMBER]", help=text)
    text = "the same if so many members join the consumer group, e.g. orders=+2"
    answers.add_argument("--consumers", type=_joining, metavar="GROUP=+N", help=text)
    answers.add_argument("--anyway", action="store_true", help="solve also if the bytes cannot fit")
    answers.add_argument("--json", action="store_true", help="print one line of JSON with all figures and moves")
    answers.add_argument("--html", metavar="FILE", help="also write a page to this file")


_LARGEST_DISK = 10**18  # bytes


def _disk(text: str) -> tuple[int, int]:
    broker, _, words = text.partition("=")
    size = _size(words) or 0
    if not re.fullmatch(r"\d{1,10}", broker) or int(broker) > LARGEST_ID or not 0 < size <= _LARGEST_DISK:
        raise argparse.ArgumentTypeError(f"{text!r} is not a broker and the size of its disk: write 17=8TB")
    return int(broker), size


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _retention(text: str) -> tuple[str, int]:
    topics, _, time = text.rpartition("=")
    match = re.fullmatch(r"([1-9]\d{0,8})([smhd])", time)
    try:
        re.compile(topics)
    except re.error:
        topics = ""
    if not topics or not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not topics (regex) and a time in s, m, h or d: write orders=6h")
    return topics, int(match[1]) * _SECONDS[match[2]]


def _partitions(text: str) -> tuple[str, int]:
    topic, _, count = text.rpartition("=")
    if not topic or not re.fullmatch(r"[1-9]\d{0,4}", count):
        raise argparse.ArgumentTypeError(f"{text!r} is not a topic and its number of partitions: write orders=24")
    return topic, int(count)


def _rack_of(text: str) -> tuple[int, str]:
    broker, _, rack = text.partition("=")
    if not re.fullmatch(r"\d{1,10}", broker) or int(broker) > LARGEST_ID or not rack:
        raise argparse.ArgumentTypeError(f"{text!r} is not a broker and its rack: write 17=eu-west-1c")
    return int(broker), rack


def _joining(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.+)=\+([1-9]\d{0,3})", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a consumer group and its new members: write orders=+2")
    return match[1], int(match[2])


def _names(text: str) -> list[str]:
    return text.split(",")


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number: write 3")
    return int(text)


_MOST_IN_RANGE = 100_000  # broker ids: more than any cluster has


def _ranges(text: str) -> list[int]:
    """Broker ids, and ranges of them."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of broker ids: write 101-106,110")
    parts = [part.partition("-") for part in text.split(",")]
    for first, _, last in parts:
        if int(last or first) < int(first) or int(last or first) > LARGEST_ID:
            remedy = f"write 101-106, the smaller id first; ids end at {LARGEST_ID}"
            raise argparse.ArgumentTypeError(f"{first}-{last} is not a range of broker ids: {remedy}")
        if int(last or first) - int(first) >= _MOST_IN_RANGE:
            raise argparse.ArgumentTypeError(
                f"{first}-{last} has more than {_MOST_IN_RANGE:,} ids: write a smaller one"
            )
    return [broker for first, _, last in parts for broker in range(int(first), int(last or first) + 1)]


def _growth(text: str) -> float:
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?)%(/month)?", text)
    if not match or not 0 < float(match[1]) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a growth in a month: write 4%/month")
    return float(match[1])


def _month(text: str) -> str:
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a month: write 2027-12")
    return text


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share: write a number up to 1, such as 0.7")
    return share


_MOST = 1000.0  # a factor; a larger one is most likely a mistake


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a factor: write a number up to {_MOST:g}, such as 1.5")
    return factor


def _add_place(commands: Any) -> None:
    text = (
        "Place the partitions of a new topic, or more partitions of an old one, as the next plan would leave them: "
        "racks, pins, disks and bands are kept. It changes nothing."
    )
    place = add_command(commands, "place", COMMANDS["place"], text)
    _run_and_cluster(place)
    place.add_argument("--topic", metavar="NAME", help="the topic")
    place.add_argument("--partitions", type=_count, metavar="N", help="a new topic with so many partitions")
    place.add_argument("--add", type=_count, metavar="N", help="so many more partitions of a topic that exists")
    place.add_argument("--factor", type=_count, metavar="N", help="replicas of each (default: as the topic has)")
    text = "expect the mean size and rates of this topic's partitions (default: of the topic itself)"
    place.add_argument("--like", metavar="TOPIC", help=text)
    for name, what in (("size", "bytes"), ("in", "bytes in a second"), ("out", "bytes out a second")):
        option, target = f"--{name}" if name == "size" else f"--{name}-rate", f"{name}_bytes"
        target = target if name == "size" else f"{target}_per_s"
        place.add_argument(option, dest=target, type=_bytes, metavar="BYTES", help=f"expected {what} of a partition")
    text = "several topics: CSV with topic and some of partitions, add, factor, like, size_bytes and the two rates"
    place.add_argument("--file", metavar="FILE", help=text)
    text = "how often each of Kafka's algorithms is tried (default: 20)"
    place.add_argument("--seeds", type=_count, default=20, metavar="N", help=text)
    place.add_argument("--to", metavar="FILE", help="write the document for ./ballast create to this file")
    place.add_argument("--json", action="store_true", help="print one line of JSON")
    place.add_argument("--html", metavar="FILE", help="also write a page to this file")


def _bytes(text: str) -> int:
    size = _size(text)
    if size is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes: write 5GB")
    return size


def _size(text: str) -> int | None:
    """Bytes of a text such as 5GB; None if it is no such text."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?)([kMGTP]B|)", text)
    return int(float(match[1]) * {"": 1, **dict(BYTE_UNITS)}[match[2]]) if match else None


def _run_and_cluster(command: Parser) -> None:
    command.add_argument("--run-id", metavar="ID", help="the run (default: the last one that planned the cluster)")
    _cluster(command)


def _cluster(command: Parser) -> None:
    command.add_argument("--cluster", required=True, metavar="ID", help="cluster of the plan")


def _add_judge(commands: Any) -> None:
    text = (
        "Measure another tool's plan with the figures of a run, and compare it with Ballast's plan. It reads "
        "reassignment JSON, the output of kafka-reassign-partitions.sh --generate, and the JSON of Cruise Control "
        "(json=true&verbose=true). Several files are phases, judged in their order."
    )
    judge = add_command(commands, "judge", COMMANDS["judge"], text)
    _run_and_cluster(judge)
    judge.add_argument(
        "--plan", required=True, nargs="+", metavar="FILE", help="the other tool's plan: its files, or a folder"
    )
    judge.add_argument(
        "--stale-ok", action="store_true", help="judge a plan that was made for other replica lists than the run's"
    )
    judge.add_argument("--json", action="store_true", help="print one line of JSON")
    judge.add_argument("--html", metavar="FILE", help="also write a page to this file")


def _add_compare(commands: Any) -> None:
    text = "Show what changed between two runs of one cluster, and how far the cluster went towards the first plan."
    compare = add_command(commands, "compare", COMMANDS["compare"], text)
    compare.add_argument("runs", nargs=2, metavar="RUN", help="the earlier and the later run")
    _cluster(compare)
    compare.add_argument("--json", action="store_true", help="print one line of JSON")
    compare.add_argument("--html", metavar="FILE", help="also write a page to this file")
