"""How many linear programs an instance takes, and of which sizes, without Spark."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.planned import cluster_of, policy_of, solve
from optimizer.configuration import build, read_toml
from optimizer.solve.glop import LOG

HOME = Path(__file__).resolve().parent.parent


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def programs_of(instance: Mapping[str, Any]) -> dict[str, str]:
    """The number of programs, a digest of their sizes in order, and one of the replica lists that they led to."""
    settings = build(read_toml(HOME / "conf/default.toml"))
    settings = replace(settings, policy=policy_of(instance, settings.policy))
    kept, level = _Kept(), LOG.level
    LOG.addHandler(kept)
    LOG.setLevel(logging.DEBUG)
    try:
        found = solve(cluster_of(instance, "programs"), settings)
    finally:
        LOG.removeHandler(kept)
        LOG.setLevel(level)
    return {
        "(programs)": str(len(kept.lines)),
        "sizes": sha256("\n".join(kept.lines).encode()).hexdigest()[:16],
        "replicas": sha256(found.replicas.tobytes()).hexdigest()[:16],
        "bound_bytes": str(found.bound_bytes),
    }
