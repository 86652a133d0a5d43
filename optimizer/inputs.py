"""Folders and live clusters of which this machine sees without Spark that they can't be read."""

import os
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from optimizer import places
from optimizer.errors import InputError
from optimizer.settings import ClusterInput

_ADDRESS = re.compile(r"(?:.*://)?(?:\[([^\]]+)\]|([^:\[\]]+))(?::(\d{1,5}))?")
_KAFKA_PORT = 9092  # of an address without one, as the client takes it
_SECONDS = 3.0  # a connection is tried for; who is silent for longer is left to the client


def folder_remedy(cluster: ClusterInput) -> str:
    """What to do where there is no input."""
    where = f"--input DIR, or as input of [[clusters]] {cluster.id!r}"
    return f"name a folder with the outputs of Kafka's tools as {where}"


def no_folder(cluster: ClusterInput) -> InputError:
    """The folder of a cluster is missing."""
    return InputError(f"there is no folder {cluster.input}: {folder_remedy(cluster)}")


def no_file(cluster: ClusterInput) -> InputError:
    """The folder of a cluster is empty."""
    return InputError(f"the folder {cluster.input} holds no file: {folder_remedy(cluster)}")


def check(clusters: Iterable[ClusterInput]) -> None:
    """Raise where no cluster can be read; where one can, the run begins, and ingest reports the others.

    Raises
    ------
    InputError
        With what is wrong with every cluster.
    """
    problems: list[str] = []
    # Those with folders alone first: to look there takes no time.
    for cluster in sorted(clusters, key=lambda one: bool(one.bootstrap_servers)):
        errors = [*_of_folder(cluster), *_of_servers(cluster)]
        if not errors:
            return
        problems += map(str, errors)
    if problems:
        raise InputError(*problems)


def _of_folder(cluster: ClusterInput) -> Iterator[InputError]:
    folder = places.local(cluster.input) if cluster.input else None
    if folder and not folder.exists():
        yield no_folder(cluster)
    elif folder and folder.is_dir() and not _has_file(folder):
        yield no_file(cluster)


def _has_file(folder: Path) -> bool:
    """Whether there is a file that Spark reads, or a folder that can't be looked into."""
    unseen: list[OSError] = []
    for _, folders, files in os.walk(folder, onerror=unseen.append, followlinks=True):
        if any(not _is_hidden(name) for name in files):
            return True
        folders[:] = [name for name in folders if not _is_hidden(name)]
    return bool(unseen)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _of_servers(cluster: ClusterInput) -> Iterator[InputError]:
    """Why none of the addresses can be reached; nothing where one may be."""
    by_error: dict[type[OSError] | None, list[str]] = {}
    for address in filter(None, map(str.strip, cluster.bootstrap_servers.split(","))):
        error = _failed(address)
        if error is None:
            return
        by_error.setdefault(error, []).append(address)
    of_cluster = f"of [[clusters]] {cluster.id!r}"
    if unknown := by_error.get(socket.gaierror):
        remedy = f"correct bootstrap_servers {of_cluster}, or the DNS of this machine"
        yield InputError(f"this machine knows no host of the name in {', '.join(unknown)}: {remedy}")
    if refused := by_error.get(ConnectionRefusedError):
        remedy = f"start the brokers, or correct the ports in bootstrap_servers {of_cluster}"
        yield InputError(f"nothing accepts connections at {', '.join(refused)}: {remedy}")


def _failed(address: str) -> type[OSError] | None:
    """The error of a host that is unknown, or of one that refuses the connection; None for all else."""
    found = _ADDRESS.fullmatch(address)
    if not found:
        return None
    place = found[1] or found[2], int(found[3] or _KAFKA_PORT)
    try:
        socket.create_connection(place, timeout=_SECONDS, all_errors=True).close()
    except (socket.gaierror, UnicodeError):
        return socket.gaierror
    except ExceptionGroup as errors:
        kinds = {type(error) for error in errors.exceptions}
        # Of a host with two addresses, this machine may have no way to the one of IPv6.
        return ConnectionRefusedError if ConnectionRefusedError in kinds and TimeoutError not in kinds else None
    except OSError:
        return None
    return None
