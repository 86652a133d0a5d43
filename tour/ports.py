"""Ports for servers on loopback, of the tour and of the tests."""

import itertools
import os
import socket
from contextlib import suppress

# Below the ports that the system gives to clients (from 32,768 on Linux): between the choice of a port and the start of
# its server a client could take it. Each process of xdist has its own range.
_FIRST, _PORTS, _RANGES = 10_000, 5_000, 4
_next = itertools.count(os.getpid() % _PORTS)


def free_ports(count: int) -> list[int]:
    """Loopback ports that are free now, each chosen once by this process."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _RANGES
    ports: list[int] = []
    while len(ports) < count:
        port = _FIRST + process * _PORTS + next(_next) % _PORTS
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.append(port)
    return ports
