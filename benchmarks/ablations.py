"""What each part of the solver is worth: the same instances with one part changed; ``python -m benchmarks.ablations``.

Without Spark (``benchmarks.planned``): seconds are those of the shards alone. A command that is ended goes on where it
was: what it has measured is kept until the code changes.
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
from benchmarks.mutants.seen import digest
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

Made by `python -m benchmarks.ablations`: the solver as it is, and with one part changed, on instances of
`benchmarks/generate.py` and `benchmarks/odd.py` with the seeds of the [benchmark](benchmark.md), and on 300 small
clusters with all that can be asked for (`benchmarks/small_fleet.py`), without Spark. A cell holds the gap to the best
bound of the plan as it is, in percent; the replicas moved; and the CPU seconds of the shards. *outside* counts clusters
with brokers that stay outside their bands: a plan that leaves more load outside may copy less. Where -100 % stands, no
shard was solved in the time that a program may take, and nothing is moved (finding `shard_out_of_time`). Of the 300,
all is summed. Of the instances above size S, M-drift alone is here: every variant solves every instance anew.

"""
ENDING = """\
## What seems not to pay

Parts without which no instance of this page loses a hundredth of a percent of its best bound, in bytes copied or
proven, and no load more is outside the bands: the worst loss; the CPU of the shards without the part against the
solver as it is; and the rare input that the part insures against. None is deleted for this page alone.

"""
# A part does not pay where a plan without it loses less than this on every instance, in percentage points.
LITTLE_PERCENT = 0.01


@dataclass(frozen=True)
class Variant:
    """One change: fields of the tuning and knobs of the solver, and what the part that is changed insures against."""

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


# A part that is left out has 0, or infinity where it is a threshold; other numbers lie some steps from what was tuned.
NO_TIE_BREAK = tuple((name, 0.0) for name in ("tie_break", "few_moves_tie_break", "gap_tie_break"))
ONE_PRICE = tuple((name, (TUNED.bytes_price,)) for name in ("plan_prices", "short_curve_prices", "curve_prices"))
VARIANTS = (
    # As many brokers, candidates and prices as each says.
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
    """What one variant came to on one instance.

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
    """Several plans as one."""
    return Measured(
        moved_bytes=sum(found.moved_bytes for found in outcomes),
        bound_bytes=sum(found.bound_bytes for found in outcomes),
        moves=sum(found.moves for found in outcomes),
        cpu_seconds=sum(found.cpu_seconds for found in outcomes),
        outside=sum(found.violation > SETTLED for found in outcomes),
        violation=sum(found.violation for found in outcomes),
    )


def of_instance(instance: Mapping[str, Any], settings: Settings) -> Measure:
    """Plans one instance."""
    cluster = cluster_of(instance, CLUSTER)
    asked = replace(settings, policy=policy_of(instance, settings.policy))
    return lambda variant: together([solve(cluster, variant.settings(asked), variant.tuned())])


def of_fleet() -> Measure:
    """Plans the 300 small clusters, those under one policy as one fleet."""

    def measure(variant: Variant) -> Measured:
        outcomes: list[Outcome] = []
        for number in range(POLICIES):
            settings, clusters = policy_fleet(number)
            rows = [{**row, "cluster_id": name} for name, one in clusters.items() for row in one.partitions]
            brokers = {name: to_brokers(pd.DataFrame(one.brokers)) for name, one in clusters.items()}
            found = solve_fleet(pd.DataFrame(rows), brokers, variant.settings(settings), variant.tuned())
            outcomes += found.values()
        return together(outcomes)

    return measure


def cell(found: Measured, as_it_is: Measured) -> str:
    """Gap, moves and seconds of one plan."""
    broken = f", {found.outside} outside" if found.outside else ""
    gap = gap_percent(found.moved_bytes, as_it_is.bound_bytes)
    told = "no bound" if gap is None else f"{gap:.3f} %"
    return f"{told} / {found.moves} / {found.cpu_seconds:.1f}{broken}"


def table(names: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A table of the page."""
    lines = [["", *names], ["---", *["---:"] * len(names)], *([name, *cells] for name, cells in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def of_no_use(found: Mapping[str, Sequence[Measured]]) -> Mapping[str, Sequence[str]]:
    """Variants that lose next to nothing on any instance: the worst loss, the CPU that they take, what they risk.

    Those of a bound are judged by the bound: a variant that proves less loses as much as the plan's gap grows.
    """
    as_it_is, rows = found[VARIANTS[0].name], {}
    total = sum(one.cpu_seconds for one in as_it_is)
    for variant in VARIANTS[1:]:
        pairs = list(zip(found[variant.name], as_it_is, strict=True))
        loss = max(lost_percent(one, usual) for one, usual in pairs)
        holds = all(one.violation <= usual.violation + SETTLED for one, usual in pairs)
        if variant.insures and loss < LITTLE_PERCENT and holds:
            share = 100 * sum(one.cpu_seconds for one, _ in pairs) / max(total, 1e-9)
            rows[variant.name] = [f"{loss:.3f}", f"{share:.0f}", variant.insures]
    return rows


def lost_percent(found: Measured, as_it_is: Measured) -> float:
    """What a change loses against the solver as it is, in bytes copied or proven, in percent of the best bound."""
    bound = max(as_it_is.bound_bytes, 1)
    copied, proven = found.moved_bytes - as_it_is.moved_bytes, as_it_is.bound_bytes - found.bound_bytes
    return 100 * max(copied, proven) / bound


def document(groups: Mapping[str, Sequence[str]], found: Mapping[str, Sequence[Measured]]) -> str:
    """The page: a table for each group of instances, in the order in which they were measured, and the ending."""
    sections, first = [INTRO], 0
    for title, names in groups.items():
        here = slice(first, first + len(names))
        as_it_is = found[VARIANTS[0].name][here]
        rows = {
            name: [cell(one, usual) for one, usual in zip(measured[here], as_it_is, strict=True)]
            for name, measured in found.items()
        }
        sections.append(f"## {title}\n\n{table(names, rows)}\n")
        first += len(names)
    sections.append(ENDING + table(["worst loss, %", "CPU of the shards, %", "insures against"], of_no_use(found)))
    return "".join(sections)


# Instances by the title of their table, in its order.
GROUPS: Mapping[str, Sequence[str]] = {
    "Size S": [f"S-{scenario}" for scenario in SCENARIOS],
    "Size M": ["M-drift"],
    "Unusual shapes": list(ODD),
    "300 small clusters": ["fleet"],
}
SEED = 1  # that of the benchmark's page


def measure_of(name: str, settings: Settings) -> Measure:
    """Plans the instance of a name in ``GROUPS``."""
    if name == "fleet":
        return of_fleet()
    size, _, scenario = name.partition("-")
    return of_instance(generate(size, scenario, SEED) if scenario else generate_odd(name, SEED), settings)


class Kept:
    """What has been measured, a line of JSON each: by instance and variant, and by the code that it holds for."""

    def __init__(self, path: Path) -> None:
        self._path, self._code = path, _code()
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        # The last line may be cut off: what follows must not be joined to it.
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        rows = (json.loads(line) for line in whole.splitlines())
        self._found = {tuple(row["key"]): Measured(**row["measured"]) for row in rows}

    def of(self, name: str, variant: Variant, measure: Callable[[], Measure]) -> Measured:
        """What a variant came to on an instance: as kept, else measured now and kept."""
        key = (self._code, name, repr(variant))
        if key not in self._found:
            self._found[key] = measure()(variant)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "measured": asdict(self._found[key])}) + "\n")
        return self._found[key]


def _code() -> str:
    """Names the solver and what makes the instances by their content; variants name themselves."""
    here = Path(__file__)
    makers = sorted(str(path.relative_to(HOME)) for path in here.parent.glob("*.py") if path.name != here.name)
    return code_version() + digest(HOME, makers)


def asked_for(names: Sequence[str]) -> dict[str, list[str]]:
    """The instances of these names, in the order of ``GROUPS``; of no name: all."""
    wanted = {title: [name for name in known if not names or name in names] for title, known in GROUPS.items()}
    return {title: some for title, some in wanted.items() if some}


def measured(names: Sequence[str], kept: Kept) -> dict[str, list[Measured]]:
    """What every variant comes to on the instances."""
    settings = build(read_toml(HOME / "conf/default.toml"))
    found: dict[str, list[Measured]] = {variant.name: [] for variant in VARIANTS}
    for name in names:
        measure = cache(lambda name=name: measure_of(name, settings))
        for variant in VARIANTS:
            one = kept.of(name, variant, measure)
            found[variant.name].append(one)
            sys.stderr.write(f"{name}, {variant.name}: {cell(one, found[VARIANTS[0].name][-1])}\n")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every variant on every instance and write the page."""
    known = [name for names in GROUPS.values() for name in names]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablations", description=__doc__)
    parser.add_argument("instances", nargs="*", metavar="INSTANCE", help=f"of {', '.join(known)}; without one: all")
    parser.add_argument("--report", type=Path, default=HOME / "docs/ablations.md")
    parser.add_argument("--kept", type=Path, default=BUILD / "ablations.jsonl", help="where what was measured is kept")
    asked = parser.parse_args(arguments)
    if unknown := sorted(set(asked.instances) - set(known)):
        parser.error(f"{', '.join(unknown)}: known are {', '.join(known)}")
    groups = asked_for(asked.instances)
    found = measured([name for names in groups.values() for name in names], Kept(asked.kept))
    asked.report.write_text(document(groups, found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
