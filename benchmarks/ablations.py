"""What each part of the solver is worth: the same instances with one part changed; ``python -m benchmarks.ablations``.

Without Spark (``benchmarks.planned``): seconds are those of the shards alone.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generate import SCENARIOS, SIZES, generate
from benchmarks.odd import ODD, generate_odd
from benchmarks.planned import Outcome, cluster_of, policy_of, solve
from benchmarks.run import CLUSTER
from optimizer.configuration import build, read_toml
from optimizer.domain import Cluster, Ints
from optimizer.settings import Settings
from optimizer.solve.rounds import cluster_round, next_round, progress, sharding
from optimizer.solve.shard import improve, relaxation, trials

HOME = Path(__file__).resolve().parent.parent
INTRO = """\
# Ablations

Made by `python -m benchmarks.ablations`: the solver as it is, and with one part changed, on instances of
`benchmarks/generate.py` and `benchmarks/odd.py`, without Spark, with the seeds of the [benchmark](benchmark.md). A cell
holds the gap to the best bound of the plan as it is, in percent; the replicas moved; and the CPU seconds of the shards.
*outside* says that brokers stay outside their bands. The page names the instances that it was made of:
`--scenarios drift decom --odd` for two of M.

"""


@dataclass(frozen=True)
class Variant:
    """One change: names in modules that get another value, and knobs of the solver."""

    name: str
    values: tuple[tuple[object, str, object], ...] = ()
    knobs: tuple[tuple[str, Any], ...] = ()


def _dealt_at_random(rack: Ints, load: object, count: int) -> Ints:
    """Brokers of each rack in a random order, dealt to the shards in turn."""
    order = np.lexsort((np.random.default_rng(1).random(len(rack)), rack))
    shard = np.empty(len(rack), dtype=np.int64)
    shard[order] = np.arange(len(rack)) % count
    return shard


def _by_turn(loads: object, limits: Any) -> object:
    """No broker is fuller than another."""
    return np.zeros(len(limits.upper))


def _as_rounded(neighbourhood: object, state: object) -> int:
    """No step at all."""
    return 0


def _undecided(*_: object) -> None:
    """No broker's load is decided before the rest is solved."""


TIE_BREAKS = ("TIE_BREAK", "FEW_MOVES_TIE_BREAK", "GAP_TIE_BREAK")
PRICES = ("PLAN_PRICES", "SHORT_CURVE_PRICES", "CURVE_PRICES")
VARIANTS = (
    Variant("as it is"),
    Variant("random shards", ((sharding, "_deal", _dealt_at_random), (sharding, "SWAPS", 0))),
    Variant("shards paired on load alone", ((sharding, "SWAPS", 0),)),
    Variant("shards of 15 brokers", knobs=(("shard_brokers", 15), ("rack_shard_brokers", 15))),
    Variant("shards of 30 brokers", knobs=(("shard_brokers", 30), ("rack_shard_brokers", 15))),
    Variant("shards of 100 brokers", knobs=(("shard_brokers", 100), ("rack_shard_brokers", 50))),
    Variant("owners by turn, not by fullness", ((cluster_round, "fullness", _by_turn),)),
    Variant("no tie-break towards small replicas", tuple((trials, name, 0.0) for name in TIE_BREAKS)),
    Variant("a quarter of the candidates", ((relaxation, "PER_PAIR", 6), (relaxation, "NEAR_PER_PAIR", 6))),
    Variant("one rounding, at a half", ((trials, "THRESHOLDS", (0.5,)),)),
    Variant("one price on moves", tuple((next_round, name, (0.003,)) for name in PRICES)),
    Variant("nothing more where a gap is left", ((next_round, "GAP", np.inf),)),
    Variant("no broker decided with whole replicas", ((trials, "scarce_decided", _undecided),)),
    Variant("no further rounds for fewer bytes", knobs=(("shard_gap", 1.0), ("cluster_gap", 1.0))),
    Variant("penalty in one stage", ((improve, "PENALTIES", (improve.VIOLATION,)),)),
    Variant("no narrower bands where brokers stay outside", ((improve, "SPARE", 0.0),)),
    Variant("rounding alone, no exchange", ((improve, "improve", _as_rounded),)),
)


@contextmanager
def _set(owner: object, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def measure(cluster: Cluster, variant: Variant, settings: Settings) -> Outcome:
    """Plan a cluster with one part changed."""
    solver = replace(settings.solver, **dict(variant.knobs))
    with ExitStack() as stack:
        for owner, name, value in variant.values:
            stack.enter_context(_set(owner, name, value))
        return solve(cluster, replace(settings, solver=solver))


def cell(found: Outcome, bound_bytes: int) -> str:
    """Gap, moves and seconds of one plan."""
    gap = 100 * (found.moved_bytes / max(bound_bytes, 1) - 1)
    broken = ", outside" if found.violation > progress.SETTLED else ""
    return f"{gap:.3f} % / {found.moves} / {found.cpu_seconds:.1f}{broken}"


def document(names: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """The page."""
    lines = [["", *names], ["---", *["---:"] * len(names)], *([name, *cells] for name, cells in rows.items())]
    return INTRO + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every variant on every instance and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablations", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="M")
    parser.add_argument("--scenarios", nargs="*", choices=SCENARIOS, default=["drift", "expand", "decom", "uneven"])
    parser.add_argument("--odd", nargs="*", choices=ODD, default=["network"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=HOME / "docs/ablations.md")
    asked = parser.parse_args(arguments)
    settings = build(read_toml(HOME / "conf/default.toml"))
    instances = {f"{asked.size}-{s}-{asked.seed}": generate(asked.size, s, asked.seed) for s in asked.scenarios}
    instances |= {f"odd-{name}-{asked.seed}": generate_odd(name, asked.seed) for name in asked.odd}
    bounds = [0] * len(instances)
    rows: dict[str, list[str]] = {}
    for variant in VARIANTS:
        cells = rows.setdefault(variant.name, [])
        for i, instance in enumerate(instances.values()):
            policy = policy_of(instance, settings.policy)
            found = measure(cluster_of(instance, CLUSTER), variant, replace(settings, policy=policy))
            bounds[i] = bounds[i] or found.bound_bytes
            cells.append(cell(found, bounds[i]))
        sys.stderr.write(f"{variant.name}: {'; '.join(cells)}\n")
    asked.report.write_text(document(list(instances), rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
