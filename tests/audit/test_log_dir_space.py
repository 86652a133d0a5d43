"""Partitions that stay because no directory of a broker has space."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from optimizer.audit import AuditLogDir
from tests.audit.plans import LIMITS, audit, broker, draining, log_dir, partition, rules_broken


# A broker to empty, and a broker with two directories for its partition of 100 bytes. Its disk has enough space.
def _left(*dirs: AuditLogDir, arriving: Sequence[int] = (), leaving: Sequence[int] = (), **changes: Any) -> set[str]:
    """Rules that a plan breaks which leaves a partition of 100 bytes.

    ``arriving`` are sizes that the plan brings, ``leaving`` sizes that it takes from /a.
    """
    hosts = [draining(7, None), broker(1, None, disk_capacity_bytes=10**6, log_dirs=dirs)]
    hosts.append(broker(2, None, accepts_replicas=True, disk_capacity_bytes=10**6))
    rows = [partition(0, 7, pinned_brokers=frozenset({1, 7}))]
    rows += [partition(10 + i, 2, size_bytes=size) for i, size in enumerate(arriving)]
    rows += [partition(20 + i, 1, size_bytes=size, log_dirs=("/a",)) for i, size in enumerate(leaving)]
    targets = {10 + i: [1] for i in range(len(arriving))} | {20 + i: [2] for i in range(len(leaving))}
    return rules_broken(audit(hosts, rows, targets, limits=replace(LIMITS, **changes)))


@pytest.mark.parametrize(
    ("dirs", "changes", "excused"),
    [
        ([log_dir("/a", 801), log_dir("/b", 801)], {}, True),
        ([log_dir("/a", 801), log_dir("/b", 800)], {}, False),
        ([log_dir("/a", 801), log_dir("/b", 0, is_open=False)], {}, True),
        ([log_dir("/a", 801), log_dir("/b", 801), log_dir("/c", 5000, None)], {}, False),
        ([log_dir("/a", 950, is_open=False), log_dir("/b", 950, is_open=False)], {}, False),
        ([log_dir("/a", 950)], {}, False),
        ([], {}, False),
        ([log_dir("/a", 700), log_dir("/b", 750)], {"arriving": [101, 51]}, True),
        ([log_dir("/a", 700), log_dir("/b", 750)], {"arriving": [101, 50]}, False),
        ([log_dir("/a", 860), log_dir("/b", 860)], {"leaving": [60]}, False),
        ([log_dir("/a", 860), log_dir("/b", 860)], {"leaving": [59]}, True),
        ([log_dir("/a", 860), log_dir("/b", 860)], {"leaving": [60], "fixed_waves": True}, True),
    ],
)
def test_full_directories_excuse(dirs: Sequence[AuditLogDir], changes: dict[str, Any], excused: bool) -> None:
    """A partition may stay if no directory has space at the end, like on a full disk.

    Brokers with one directory, without an open one or with an unknown capacity are as before.
    """
    assert _left(*dirs, **changes) == (set() if excused else {"drain"})


def test_brokers_with_full_directories_are_found_among_many() -> None:
    """A full directory on a broker with much disk space excuses, although other brokers have less disk space."""
    full = (log_dir("/a", 850), log_dir("/b", 850))
    hosts = [draining(7, None), broker(1, None, disk_capacity_bytes=10**6, log_dirs=full)]
    hosts += [broker(b, None) for b in range(10, 20)]
    assert rules_broken(audit(hosts, [partition(0, 7)], {})) == set()
    assert rules_broken(audit([*hosts[:1], *hosts[2:]], [partition(0, 7)], {})) == {"drain"}
