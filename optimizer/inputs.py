"""Early checks, without Spark, of folders and live clusters that this machine can't read."""

import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from optimizer import places
from optimizer.errors import InputError
from optimizer.setting_checks import server_address, server_addresses
from optimizer.settings import ClusterInput

_SECONDS = 3.0  # timeout of a connection; a server that is slower is left to the client


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
    if folder and not folder.exists():
        yield missing_folder(cluster)
    elif folder and folder.is_dir() and not _has_file(folder):
        yield empty_folder(cluster)


def _has_file(folder: Path) -> bool:
    """Whether the folder has a file that Spark reads, or a subfolder that can't be listed."""
    unreadable: list[OSError] = []
    for _, folders, files in os.walk(folder, onerror=unreadable.append, followlinks=True):
        if any(not _is_hidden(name) for name in files):
            return True
        folders[:] = [name for name in folders if not _is_hidden(name)]
    return bool(unreadable)


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
