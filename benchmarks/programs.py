"""The number and sizes of the linear programs of an instance, without Spark."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ortools.linear_solver.python import model_builder_helper as mbh

from benchmarks.planned import cluster_of, policy_of, solve
from optimizer.configuration import build, read_toml

HOME = Path(__file__).resolve().parent.parent


def programs_of(instance: Mapping[str, Any]) -> dict[str, str]:
    """The number of programs, and digests of their sizes in order and of the resulting replica lists."""
    settings = build(read_toml(HOME / "conf/default.toml"))
    settings = replace(settings, policy=policy_of(instance, settings.policy))
    sizes: list[tuple[int, int, int]] = []

    class Counted(mbh.ModelBuilderHelper):
        """A model that records its size: rows, columns, entries."""

        def fill_model_from_sparse_data(self, *model: Any) -> None:
            sizes.append((*model[-1].shape, model[-1].nnz))
            super().fill_model_from_sparse_data(*model)

    with patch.object(mbh, "ModelBuilderHelper", Counted):
        outcome = solve(cluster_of(instance, "programs"), settings)
    sizes_text = "\n".join(f"{rows} rows, {columns} columns, {entries} entries" for rows, columns, entries in sizes)
    return {
        "(programs)": str(len(sizes)),
        "sizes": sha256(sizes_text.encode()).hexdigest()[:16],
        "replicas": sha256(outcome.replicas.tobytes()).hexdigest()[:16],
        "bound_bytes": str(outcome.bound_bytes),
    }
