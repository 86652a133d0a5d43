"""Measure the value of each solver part: the same instances, one part changed; ``python -m benchmarks.ablations``.

It runs without Spark (``benchmarks.planned``), so CPU seconds are those of the shards only. An interrupted command
continues where it stopped: its results are stored until the code changes.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.generate import SCENARIOS, generate
from benchmarks.mutants.choose_tests import digest
from benchmarks.odd import ODD, generate_odd
from benchmarks.planned import Outcome, cluster_of, policy_of, solve, solve_fleet
from benchmarks.run import CLUSTER
from benchmarks.small_fleet import POLICIES, policy_fleet
from optimizer.configuration import build, read_toml
from optimizer.planning.arrays import to_brokers
from optimizer.settings import Settings
from optimizer.solve.certificate import gap_percent
from optimizer.solve.rules.bands import SETTLED
from optimizer.solve.tuning import TUNED, Tuning
from setup.app_zip import code_version
from setup.paths import BUILD, HOME

INTRO = """\
# Ablations

Made by `python -m benchmarks.ablations`, without Spark. It runs the solver as it is, and with one part changed, on
instances of `benchmarks/generate.py` and `benchmarks/odd.py` with the seeds of the [benchmark](benchmark.md), and on
300 small clusters with requests of every kind (`benchmarks/small_fleet.py`). A cell has the gap to the best bound of
the solver as it is, in percent; the replicas moved; and the CPU seconds of the shards. *outside* counts clusters with
brokers outside their bands: a plan that leaves more load outside may copy less. With -100 % no shard was solved within
the time limit of a linear program, and nothing is moved (finding `shard_out_of_time`). The figures of the 300 clusters
are sums. M-drift is the only instance above size S, because every variant solves every instance again.

"""
ENDING = """\
## Parts with little effect

Without these parts no instance of this page loses 0.01 % of its best bound, in bytes copied or proven, and no more
load is outside the bands. The columns are the worst loss, the CPU time of the shards without the part, relative to the
solver as it is, and the rare input for which the part is needed. This page alone is no reason to delete a part.

"""
# A part has little effect if a plan without it loses less than this on every instance, in percentage points.
LITTLE_PERCENT = 0.01


@dataclass(frozen=True)
class Variant:
    """One change of tuning fields and solver knobs, and the input for which the changed part is needed."""

    name: str
    insures: str = ""
    tuning: tuple[tuple[str, Any], ...] = ()
    knobs: tuple[tuple[str, Any], ...] = ()

    def tuned(self) -> Tuning:
        """The tuning with its change."""
        return replace(TUNED, **dict(self.tuning))

    def settings(self, settings: Settings) -> Settings:
        """The settings with its change."""
        return replace(settings, solver=replace(settings.solver, **dict(self.knobs)))


# A part is turned off by 0, or by infinity for a threshold. Other values differ by some steps from the tuned value.
NO_TIE_BREAK = tuple((name, 0.0) for name in ("tie_break", "few_moves_tie_break", "gap_tie_break"))
ONE_PRICE = tuple((name, (TUNED.bytes_price,)) for name in ("plan_prices", "short_curve_prices", "curve_prices"))
VARIANTS = (
    # Each name gives the number of brokers, candidates or prices.
    Variant("as it is"),
    Variant(
        "random shards",
        "shards that hold more than their brokers can level",
        (("deals_by_load", False), ("deal_swaps", 0)),
    ),
    Variant("no swaps that make shards alike", "the same", (("deal_swaps", 0),)),
    Variant("shards of 15 brokers", knobs=(("shard_brokers", 15), ("rack_shard_brokers", 15))),
    Variant("shards of 30 brokers", knobs=(("shard_brokers", 30), ("rack_shard_brokers", 15))),
    Variant("shards of 100 brokers", knobs=(("shard_brokers", 100), ("rack_shard_brokers", 50))),
    Variant(
        "owners by turn, not by fullness",
        "partitions that may leave a full broker only over the racks of another shard",
        (("owners_by_fullness", False),),
    ),
    Variant("no tie-break towards small replicas", "giants that round badly", NO_TIE_BREAK),
    Variant(
        "a quarter of the candidates",
        "a pair of brokers between which dozens of replicas may go",
        (("per_pair", 6), ("near_per_pair", 6)),
    ),
    Variant(
        "one rounding, at a half",
        "relaxations in which many replicas move by less than a half",
        (("thresholds", (0.5,)), ("more_thresholds", (0.5,))),
    ),
    Variant("one price on moves", "plans of many small moves where a few large ones would do", ONE_PRICE),
    Variant("nothing more where a gap is left", "few large replicas that round badly", (("gap", np.inf),)),
    Variant(
        "no broker decided with whole replicas",
        "a broker that is short of something while others must give much",
        (("decides_scarce", False),),
    ),
    Variant(
        "no further rounds for fewer bytes",
        "shards that are far from their bounds after the first round",
        knobs=(("shard_gap", 1.0), ("cluster_gap", 1.0)),
    ),
    Variant("penalty in one stage", "bytes that a softer start would save", (("penalties", (TUNED.violation_bytes,)),)),
    Variant(
        "no narrower bands where brokers stay outside",
        "brokers that fill their bands to the end, beside one that is stuck",
        (("spare", 0.0),),
    ),
    Variant("rounding alone, no exchange", "every fraction of the relaxation", (("exchanges", False),)),
    Variant(
        "no swaps of replicas that no plan has touched",
        "bands so narrow that only the difference of two replicas fits",
        (("swap_pairs", 0),),
    ),
    Variant(
        "no search of small clusters",
        "clusters of so few replicas that single moves are stuck",
        (("exact_cells", 0),),
    ),
    Variant(
        "no relaxation around the plan for the bound",
        "a bound of several shards that proves little",
        (("wide_gap", np.inf),),
    ),
    Variant("no bound by whole replicas", "few replicas of which a part would do", (("whole_gap", np.inf),)),
)


@dataclass(frozen=True)
class Measured:
    """The result of one variant on one instance.

    Parameters
    ----------
    outside : int
        Clusters with brokers outside their bands.
    violation : float
        Load outside the bands, in mean broker loads.
    """

    moved_bytes: int
    bound_bytes: int
    moves: int
    cpu_seconds: float
    outside: int
    violation: float


Measure = Callable[[Variant], Measured]


def together(outcomes: Sequence[Outcome]) -> Measured:
    """The sum of several plans."""
    return Measured(
        moved_bytes=sum(outcome.moved_bytes for outcome in outcomes),
        bound_bytes=sum(outcome.bound_bytes for outcome in outcomes),
        moves=sum(outcome.moves for outcome in outcomes),
        cpu_seconds=sum(outcome.cpu_seconds for outcome in outcomes),
        outside=sum(outcome.violation > SETTLED for outcome in outcomes),
        violation=sum(outcome.violation for outcome in outcomes),
    )


def of_instance(instance: Mapping[str, Any], settings: Settings) -> Measure:
    """A function that plans one instance."""
    cluster = cluster_of(instance, CLUSTER)
    instance_settings = replace(settings, policy=policy_of(instance, settings.policy))
    return lambda variant: together([solve(cluster, variant.settings(instance_settings), variant.tuned())])


def of_fleet() -> Measure:
    """A function that plans the 300 small clusters, one fleet per policy."""

    def measure(variant: Variant) -> Measured:
        outcomes: list[Outcome] = []
        for number in range(POLICIES):
            settings, clusters = policy_fleet(number)
            rows = [{**row, "cluster_id": name} for name, result in clusters.items() for row in result.partitions]
            brokers = {name: to_brokers(pd.DataFrame(result.brokers)) for name, result in clusters.items()}
            results = solve_fleet(pd.DataFrame(rows), brokers, variant.settings(settings), variant.tuned())
            outcomes += results.values()
        return together(outcomes)

    return measure


def cell(result: Measured, as_it_is: Measured) -> str:
    """Gap, moves and CPU seconds of one plan."""
    broken = f", {result.outside} outside" if result.outside else ""
    gap = gap_percent(result.moved_bytes, as_it_is.bound_bytes)
    gap_text = "no bound" if gap is None else f"{gap:.3f} %"
    return f"{gap_text} / {result.moves} / {result.cpu_seconds:.1f}{broken}"


def table(names: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A table of the page."""
    lines = [["", *names], ["---", *["---:"] * len(names)], *([name, *cells] for name, cells in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def without_effect(results: Mapping[str, Sequence[Measured]]) -> Mapping[str, Sequence[str]]:
    """Variants with little loss on every instance: worst loss, relative CPU time, and the input that needs the part.

    A variant that changes a bound is judged by the bound: its loss is the growth of the plan's gap.
    """
    as_it_is, rows = results[VARIANTS[0].name], {}
    total = sum(result.cpu_seconds for result in as_it_is)
    for variant in VARIANTS[1:]:
        pairs = list(zip(results[variant.name], as_it_is, strict=True))
        loss = max(loss_percent(result, reference) for result, reference in pairs)
        holds = all(result.violation <= reference.violation + SETTLED for result, reference in pairs)
        if variant.insures and loss < LITTLE_PERCENT and holds:
            share = 100 * sum(result.cpu_seconds for result, _ in pairs) / max(total, 1e-9)
            rows[variant.name] = [f"{loss:.3f}", f"{share:.0f}", variant.insures]
    return rows


def loss_percent(result: Measured, as_it_is: Measured) -> float:
    """The loss against the solver as it is, in bytes copied or proven, in percent of the best bound."""
    bound = max(as_it_is.bound_bytes, 1)
    copied, proven = result.moved_bytes - as_it_is.moved_bytes, as_it_is.bound_bytes - result.bound_bytes
    return 100 * max(copied, proven) / bound


def document(groups: Mapping[str, Sequence[str]], results: Mapping[str, Sequence[Measured]]) -> str:
    """The page: a table for each group of instances in the order of measurement, and the ending."""
    sections, offset = [INTRO], 0
    for title, names in groups.items():
        columns = slice(offset, offset + len(names))
        as_it_is = results[VARIANTS[0].name][columns]
        rows = {
            name: [cell(result, reference) for result, reference in zip(measured[columns], as_it_is, strict=True)]
            for name, measured in results.items()
        }
        sections.append(f"## {title}\n\n{table(names, rows)}\n")
        offset += len(names)
    sections.append(
        ENDING + table(["worst loss, %", "CPU of the shards, %", "insures against"], without_effect(results))
    )
    return "".join(sections)


# Instances by the title of their table, in its order.
GROUPS: Mapping[str, Sequence[str]] = {
    "Size S": [f"S-{scenario}" for scenario in SCENARIOS],
    "Size M": ["M-drift"],
    "Unusual shapes": list(ODD),
    "300 small clusters": ["fleet"],
}
SEED = 1  # the seed of the benchmark page


def measure_of(name: str, settings: Settings) -> Measure:
    """A function that plans the instance with this name in ``GROUPS``."""
    if name == "fleet":
        return of_fleet()
    size, _, scenario = name.partition("-")
    return of_instance(generate(size, scenario, SEED) if scenario else generate_odd(name, SEED), settings)


class ResultStore:
    """Stored results, one JSON line each, by code version, instance and variant."""

    def __init__(self, path: Path) -> None:
        self._path, self._code = path, _code()
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        # The last line may be incomplete; new lines must not be appended to it.
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        rows = (json.loads(line) for line in whole.splitlines())
        self._results = {tuple(row["key"]): Measured(**row["measured"]) for row in rows}

    def of(self, name: str, variant: Variant, measure: Callable[[], Measure]) -> Measured:
        """The result of a variant on an instance: stored, or measured now and stored."""
        key = (self._code, name, repr(variant))
        if key not in self._results:
            self._results[key] = measure()(variant)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "measured": asdict(self._results[key])}) + "\n")
        return self._results[key]


def _code() -> str:
    """A hash of the solver and of the code that makes the instances. Variants are part of the key."""
    this_file = Path(__file__)
    makers = sorted(
        str(path.relative_to(HOME)) for path in this_file.parent.glob("*.py") if path.name != this_file.name
    )
    return code_version() + digest(HOME, makers)


def instances_of(names: Sequence[str]) -> dict[str, list[str]]:
    """The instances with these names, in the order of ``GROUPS``; without names all instances."""
    selected = {title: [name for name in known if not names or name in names] for title, known in GROUPS.items()}
    return {title: names for title, names in selected.items() if names}


def measured(names: Sequence[str], store: ResultStore) -> dict[str, list[Measured]]:
    """Measure every variant on the instances."""
    settings = build(read_toml(HOME / "conf/default.toml"))
    results: dict[str, list[Measured]] = {variant.name: [] for variant in VARIANTS}
    for name in names:
        measure = cache(lambda name=name: measure_of(name, settings))
        for variant in VARIANTS:
            result = store.of(name, variant, measure)
            results[variant.name].append(result)
            sys.stderr.write(f"{name}, {variant.name}: {cell(result, results[VARIANTS[0].name][-1])}\n")
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every variant on every instance and write the page."""
    known = [name for names in GROUPS.values() for name in names]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablations", description=__doc__)
    parser.add_argument("instances", nargs="*", metavar="INSTANCE", help=f"of {', '.join(known)}; without one: all")
    parser.add_argument("--report", type=Path, default=HOME / "docs/ablations.md")
    parser.add_argument("--kept", type=Path, default=BUILD / "ablations.jsonl", help="file of the stored results")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.instances) - set(known)):
        parser.error(f"{', '.join(unknown)}: known are {', '.join(known)}")
    groups = instances_of(parsed.instances)
    results = measured([name for names in groups.values() for name in names], ResultStore(parsed.kept))
    parsed.report.write_text(document(groups, results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
