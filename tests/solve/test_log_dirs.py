"""Directories that Kafka would fill: it counts logs, not bytes."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from optimizer.domain import FindingCode, LogDir
from optimizer.solve.findings.directory_findings import directory_findings
from tests.in_full import in_full
from tests.solve.clusters import make_brokers, make_partitions

BEFORE = ["/x"] * 2


@dataclass(frozen=True)
class Case:
    """Broker 2 with its directories; partitions arrive from broker 1 and leave for it, with their sizes.

    Parameters
    ----------
    full : by path
        Bytes that arrive in a directory that they fill, and its room.
    """

    dirs: tuple[LogDir, ...]
    arrive: tuple[int, ...]
    full: dict[str, tuple[int, int]]
    leave: tuple[tuple[str, int], ...] = ()


def log_dir(path: str, used: int, logs: int, *, capacity: int | None = 100, is_open: bool = True) -> LogDir:
    """A directory that may hold 90 bytes."""
    return LogDir(path, capacity, used, logs, is_open)


CASES = {
    "many small logs and few big ones": Case((log_dir("/a", 6, 60), log_dir("/b", 80, 3)), (5,) * 4, {"/b": (20, 10)}),
    "equal numbers by path": Case((log_dir("/a", 85, 3), log_dir("/b", 85, 3)), (6, 4), {"/a": (6, 5)}),
    "until the numbers are equal": Case((log_dir("/a", 0, 2), log_dir("/b", 60, 0)), (20,) * 4, {"/b": (60, 30)}),
    "room for all": Case((log_dir("/a", 6, 60), log_dir("/b", 70, 3)), (5,) * 4, {}),
    "what leaves makes room": Case(
        (log_dir("/a", 6, 60), log_dir("/b", 80, 3)), (5,) * 4, {}, leave=(("/b", 10), ("/a", 4))
    ),
    "not what leaves another directory": Case(
        (log_dir("/a", 6, 60), log_dir("/b", 80, 3)), (5,) * 4, {"/b": (20, 19)}, leave=(("/b", 9), ("/a", 4))
    ),
    "over its limit already": Case((log_dir("/a", 0, 60), log_dir("/b", 95, 3)), (1,), {"/b": (1, 0)}),
    "one that has failed gets nothing": Case(
        (log_dir("/a", 80, 60), log_dir("/b", 80, 3, is_open=False), log_dir("/c", 0, 99)), (20,), {"/a": (20, 10)}
    ),
    "one that is open gets all": Case(
        (log_dir("/a", 80, 60), log_dir("/b", 0, 3, is_open=False)), (20, 5), {"/a": (25, 10)}
    ),
    "none is open": Case((log_dir("/a", 80, 60, is_open=False), log_dir("/b", 80, 3, is_open=False)), (20,), {}),
    "one directory has the limit of its broker": Case((log_dir("/a", 80, 60),), (20,), {}),
    "no limit without a capacity": Case((log_dir("/a", 80, 60, capacity=None), log_dir("/b", 0, 99)), (20,), {}),
    "nothing arrives": Case((log_dir("/a", 99, 60), log_dir("/b", 99, 3)), (), {}, leave=(("/b", 10),)),
    "no directories are known": Case((), (20,), {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_arriving_replicas_go_where_the_fewest_logs_are(case: Case) -> None:
    """A directory with less room than that is a finding with both."""
    before = [[0, 1]] * len(case.arrive) + [[0, 2]] * len(case.leave)
    after = [[0, 2]] * len(case.arrive) + [[0, 1]] * len(case.leave)
    paths = [BEFORE] * len(case.arrive) + [["/x", path] for path, _ in case.leave]
    partitions = make_partitions(before, [*case.arrive, *(size for _, size in case.leave)])
    brokers = replace(make_brokers([0, 1, 2]), log_dirs=((), (), case.dirs))
    findings = in_full(directory_findings(brokers, partitions, np.array(after), paths, headroom=0.1))
    assert {finding.code for finding in findings} <= {FindingCode.LOG_DIR_FILLS}
    assert {finding.subject: (finding.amount, finding.limit) for finding in findings} == {
        f"broker 2 {path}": figures for path, figures in case.full.items()
    }
