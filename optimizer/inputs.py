"""Early checks, without Spark, of folders and live clusters that this machine can't read."""

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from optimizer import places
from optimizer.errors import InputError
from optimizer.setting_checks import server_address, server_addresses
from optimizer.settings import ClusterInput
from optimizer.units import first_of

_SECONDS = 3.0  # timeout of a connection; a server that is slower is left to the client
_HEAD_BYTES = 2**18  # a file that is longer may describe topics further down
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")  # metrics, racks or capacities: never topics
_OF_TOPICS = frozenset({"topic", "partition", "assignment", "reassignment"})  # kinds of records


def folder_remedy(cluster: ClusterInput) -> str:
    """What to do if a cluster has no input."""
    option = f"--input DIR, or as input of [[clusters]] {cluster.id!r}"
    return f"name a folder with the outputs of Kafka's tools as {option}"


def missing_folder(cluster: ClusterInput) -> InputError:
    """The error for a cluster with a missing folder."""
    return InputError(f"there is no folder {cluster.input}: {folder_remedy(cluster)}")


def empty_folder(cluster: ClusterInput) -> InputError:
    """The error for a cluster with an empty folder."""
    return InputError(f"the folder {cluster.input} is empty: {folder_remedy(cluster)}")


def check(clusters: Iterable[ClusterInput]) -> None:
    """Raise if no cluster can be read. If any can, the run starts, and ingest reports the others.

    Raises
    ------
    InputError
        With the problem of each cluster.
    """
    problems: list[str] = []
    # Clusters with only a folder come first, because a folder is checked faster.
    for cluster in sorted(clusters, key=lambda cluster: bool(cluster.bootstrap_servers)):
        errors = [*_folder_errors(cluster), *_server_errors(cluster)]
        if not errors:
            return
        problems += map(str, errors)
    if problems:
        raise InputError(*problems)


def _folder_errors(cluster: ClusterInput) -> Iterator[InputError]:
    folder = places.local(cluster.input) if cluster.input else None
    if folder is None:
        return
    if not folder.exists():
        yield missing_folder(cluster)
        return
    try:
        files = _files(folder)
        if not files:
            yield empty_folder(cluster)
        elif not cluster.bootstrap_servers and not any(map(_may_have_topics, files)):
            yield _without_topics(cluster, folder, files)
    except OSError:
        return  # Spark may have other rights


def _files(folder: Path) -> list[Path]:
    """The files that Spark reads, those with ``topic`` in their names first; for a file the file itself."""
    if not folder.is_dir():
        return [folder]
    found = []
    for place, folders, names in os.walk(folder, onerror=_raise, followlinks=True):
        found += [Path(place, name) for name in names if not _is_hidden(name)]
        folders[:] = [name for name in folders if not _is_hidden(name)]
    return sorted(found, key=lambda path: ("topic" not in path.name, path))


def _raise(error: OSError) -> None:
    raise error


def _may_have_topics(file: Path) -> bool:
    """Whether the head of a file describes a topic, or the file goes on after it."""
    from sources.detect import parse_file  # all parsers: they would slow down --help

    if file.name.endswith((*TABLES, ".parquet")):
        return False
    with file.open("rb") as content:
        head = content.read(_HEAD_BYTES + 1)
    has_topics = any(record.kind in _OF_TOPICS for record in parse_file(head[:_HEAD_BYTES], name=file.name))
    return has_topics or len(head) > _HEAD_BYTES


def _without_topics(cluster: ClusterInput, folder: Path, files: Sequence[Path]) -> InputError:
    if folder.is_file():
        return InputError(f"the file {cluster.input} does not describe topics: {folder_remedy(cluster)}")
    names = first_of(sorted(str(file.relative_to(folder)) for file in files), 3)
    remedy = "put the output of kafka-topics.sh --describe into it"
    return InputError(f"no file of the folder {cluster.input} describes topics (it has {names}): {remedy}")


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _server_errors(cluster: ClusterInput) -> Iterator[InputError]:
    """Why none of the addresses can be reached; nothing if one of them may be."""
    by_error: dict[type[OSError] | None, list[str]] = {}
    for address in server_addresses(cluster.bootstrap_servers):
        error = _failed(address)
        if error is None:
            return
        by_error.setdefault(error, []).append(address)
    of_cluster = f"of [[clusters]] {cluster.id!r}"
    if unknown := by_error.get(socket.gaierror):
        remedy = f"correct bootstrap_servers {of_cluster}, or the DNS of this machine"
        yield InputError(f"this machine cannot resolve the host name of {', '.join(unknown)}: {remedy}")
    if refused := by_error.get(ConnectionRefusedError):
        remedy = f"start the brokers, or correct the ports in bootstrap_servers {of_cluster}"
        yield InputError(f"nothing accepts connections at {', '.join(refused)}: {remedy}")


def _failed(address: str) -> type[OSError] | None:
    """The error if the host is unknown or refuses the connection; else None."""
    host_and_port = server_address(address)
    if not host_and_port:
        return None
    try:
        socket.create_connection(host_and_port, timeout=_SECONDS, all_errors=True).close()
    except (socket.gaierror, UnicodeError):
        return socket.gaierror
    except ExceptionGroup as errors:
        kinds = {type(error) for error in errors.exceptions}
        # If a host has two addresses, this machine may have no route to the IPv6 address.
        return ConnectionRefusedError if ConnectionRefusedError in kinds and TimeoutError not in kinds else None
    except OSError:
        return None
    return None
