"""Kafka's tools as the throttle scripts call them, over a cluster in a JSON file; run as a program, by its link's name.

It is as strict as the strictest release: 3.9 refuses to delete a config that is not set, and to alter a broker with a
secret among its dynamic configs.
"""

import json
import sys
from pathlib import Path
from typing import Any

LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
HEADINGS = {"topics": "Dynamic configs for topic {} are:", "brokers": "Dynamic configs for broker {} are:"}


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(text + "\n")


def main(name: str, arguments: list[str]) -> int:
    """Do what a tool does; returns its exit code."""
    path = Path(sys.argv[0]).parent / "cluster.json"
    cluster = json.loads(path.read_text())
    cluster["calls"].append(" ".join([name, *arguments]))
    try:
        run(cluster, dict(zip(arguments, [*arguments[1:], ""], strict=True)))
        return 0
    except ValueError as error:
        say(f"Error while executing config command with args '...'\n{error}\n\tat kafka.admin.Some(Some.scala:1)")
        return 1
    finally:
        path.write_text(json.dumps(cluster))


def run(cluster: dict[str, Any], options: dict[str, str]) -> None:
    """One call."""
    if "--list" in options:
        running = cluster["running"]
        say("Current partition reassignments:" if running else "No partition reassignments found.")
        for partition in running:
            say(f"{partition}: replicas: 1,2,3. adding: 3.")
    elif "--verify" in options:
        document = json.loads(Path(options["--reassignment-json-file"]).read_text())
        for line in cluster.get("moving", []):
            say(line)
        if "--preserve-throttles" not in options:
            verify(cluster, document)
    elif "--describe" in options:
        if options["--entity-type"] in cluster.get("unreadable", []):
            raise ValueError("org.apache.kafka.common.errors.TimeoutException: timed out")
        describe(cluster[options["--entity-type"]], HEADINGS[options["--entity-type"]])
    else:
        alter(cluster, options)


def verify(cluster: dict[str, Any], document: dict[str, Any]) -> None:
    """All rates of brokers and the lists of the document's topics go, where nothing is in flight."""
    topics = {row["topic"] for row in document["partitions"]}
    if not topics <= cluster["topics"].keys():
        raise ValueError("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: gone")
    for configs in () if cluster["running"] else (*cluster["brokers"].values(), *map(cluster["topics"].get, topics)):
        for config in [name for name in configs if ".throttled." in name or name == LOG_DIR_RATE]:
            del configs[config]


def describe(entities: dict[str, dict[str, str]], heading: str) -> None:
    """The dynamic configs of all entities of a kind."""
    for name, configs in entities.items():
        say(heading.format(name))
        for config, value in configs.items():
            say(f"  {config}={value} sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{config}={value}}}")
    say("Default configs for brokers in the cluster are:\n  x=1 sensitive=false synonyms={}")


def alter(cluster: dict[str, Any], options: dict[str, str]) -> None:
    """Set and delete configs of one entity."""
    kind, name = options["--entity-type"], options["--entity-name"]
    configs = cluster[kind].get(name)
    if configs is None:
        raise ValueError(f"Timed out waiting for a node assignment: {kind} {name}")
    if "ssl.keystore.password" in configs:
        raise ValueError("All sensitive broker config entries must be specified for --alter")
    for config in filter(None, options.get("--delete-config", "").split(",")):
        if config not in configs:
            raise ValueError(
                f"org.apache.kafka.common.errors.InvalidConfigurationException: Invalid config(s): {config}"
            )
        del configs[config]
    text = options.get("--add-config", "")
    while text:
        config, _, rest = text.partition("=")
        value, _, text = rest[1:].partition("]") if rest.startswith("[") else rest.partition(",")
        configs[config], text = value, text.removeprefix(",")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[0]).name, sys.argv[1:]))
