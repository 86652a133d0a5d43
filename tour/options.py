"""The options of the tour. Uses only the standard library, as ``execution.options``."""

from typing import Any

from execution.options import add_plain_command

COMMANDS = {"tour": "make, judge, execute, disturb and take back a plan on a Kafka of its own on this machine"}
TEXT = (
    "Start six brokers on this machine, plan to empty one, judge the plan of Kafka's own tool, approve, execute, kill "
    "a broker in the middle, and take it back. Each step prints its command. At the end everything is stopped and "
    "removed. It needs 4 GB of memory, and takes some minutes; the first time it downloads Kafka (55 MB)."
)


def add_commands(commands: Any) -> None:
    """Add the command."""
    tour = add_plain_command(commands, "tour", COMMANDS["tour"], TEXT)
    tour.add_argument("--yes", action="store_true", help="do not wait for a key between the steps")
