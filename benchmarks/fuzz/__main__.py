"""``python -m benchmarks.fuzz inputs|clusters|racks|fleet --count N --seed N``: figures, and what was found.

The exit code is 1 where something was found that must not be.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.fuzz import clusters, inputs
from benchmarks.fuzz.odd_clusters import OddCluster, full_cluster, odd_cluster

# Cases of each kind where no number is asked for.
COUNTS = {"inputs": 20_000, "clusters": 5_000, "racks": 5_000, "fleet": 48}


def changed_lines(case: inputs.Case) -> str:
    """The first lines that differ."""
    before, after = case.before.splitlines(), case.after.splitlines()
    at = next((i for i, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(after))
    return f"    was {before[at : at + 2]!r:.300}\n    is  {after[at : at + 2]!r:.300}"


def of_inputs(count: int, seed: int) -> int:
    """Read mutated folders; show verdicts by way, and an example of each class that must not be."""
    verdicts: dict[str, Counter[str]] = {}
    bad: dict[tuple[str, ...], list[inputs.Case]] = {}
    for case in inputs.cases(count, seed):
        verdicts.setdefault(case.way, Counter())[case.verdict] += 1
        if case.verdict in inputs.BAD:
            bad.setdefault((case.verdict, case.way, case.file, *case.lost), []).append(case)
    names = sorted({name for found in verdicts.values() for name in found})
    print(f"{'':16}" + "".join(f"{name:>10}" for name in names))
    for way, found in {**verdicts, "all": sum(verdicts.values(), Counter[str]())}.items():
        print(f"{way:16}" + "".join(f"{found[name]:10}" for name in names))
    for key, some in sorted(bad.items()):
        print(f"\n{len(some)} x {' '.join(key)}\n{changed_lines(min(some, key=lambda case: len(case.after)))}")
    return int(bool(bad))


def of_clusters(count: int, seed: int, make: Callable[[int], OddCluster] = odd_cluster) -> int:
    """Plan odd clusters; show each that is not fine, as it comes."""
    verdicts, searched, seconds = Counter[str](), 0, 0.0
    for case in clusters.cases(count, seed, make):
        verdicts[case.verdict] += 1
        searched, seconds = searched + case.searched, seconds + case.seconds
        if case.verdict != clusters.FINE:
            print(f"cluster {case.seed}: {case.verdict}: {'; '.join(case.details)}", flush=True)
    told = ", ".join(f"{n} {verdict}" for verdict, n in sorted(verdicts.items()))
    print(f"{told}; against all placements: {searched}; {seconds:.0f} CPU-s")
    return int(any(verdicts[verdict] for verdict in clusters.BAD))


def of_fleet(count: int, seed: int) -> int:
    """Judge contradicting folders in one run of Spark; show those that break no rule."""
    from benchmarks.fuzz import fleet

    found = list(fleet.contradictions(count, seed))
    with fleet.local_session() as spark:
        silent = fleet.untold(spark, found)
    for one in silent:
        print(f"{one.case.way} {one.case.file}: {' '.join(one.case.lost)}\n{changed_lines(one.case)}")
    print(f"{len(found)} folders whose sources contradict each other, {len(silent)} break no rule")
    return int(bool(silent))


RUNS: Mapping[str, Callable[[int, int], int]] = {
    "inputs": of_inputs,
    "clusters": of_clusters,
    "racks": partial(of_clusters, make=full_cluster),
    "fleet": of_fleet,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz")
    parser.add_argument("what", choices=RUNS)
    counts = ", ".join(f"{count:,} {name}" for name, count in COUNTS.items())
    parser.add_argument("--count", type=int, help=f"if not given {counts}")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    return RUNS[asked.what](asked.count or COUNTS[asked.what], asked.seed)


if __name__ == "__main__":
    sys.exit(main())
