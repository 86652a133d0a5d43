"""``python -m benchmarks.fuzz inputs|clusters|racks|fleet --count N --seed N``: print figures and failures.

The exit code is 1 if there is a failure.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.fuzz import clusters, inputs
from benchmarks.fuzz.odd_clusters import OddCluster, full_cluster, odd_cluster

# Default number of cases of each kind.
COUNTS = {"inputs": 20_000, "clusters": 5_000, "racks": 5_000, "fleet": 48}


def changed_lines(case: inputs.Case) -> str:
    """The first lines that differ."""
    before, after = case.before.splitlines(), case.after.splitlines()
    at = next((i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(after))
    return f"    was {before[at : at + 2]!r:.300}\n    is  {after[at : at + 2]!r:.300}"


def of_inputs(count: int, seed: int) -> int:
    """Read mutated folders; print verdicts by mutation, and an example of each failure."""
    verdicts: dict[str, Counter[str]] = {}
    bad: dict[tuple[str, ...], list[inputs.Case]] = {}
    for case in inputs.cases(count, seed):
        verdicts.setdefault(case.way, Counter())[case.verdict] += 1
        if case.verdict in inputs.BAD:
            bad.setdefault((case.verdict, case.way, case.file, *case.lost), []).append(case)
    names = sorted({name for counts in verdicts.values() for name in counts})
    print(f"{'':16}" + "".join(f"{name:>10}" for name in names))
    for way, counts in {**verdicts, "all": sum(verdicts.values(), Counter[str]())}.items():
        print(f"{way:16}" + "".join(f"{counts[name]:10}" for name in names))
    for key, examples in sorted(bad.items()):
        print(f"\n{len(examples)} x {' '.join(key)}\n{changed_lines(min(examples, key=lambda case: len(case.after)))}")
    return int(bool(bad))


def of_clusters(count: int, seed: int, make: Callable[[int], OddCluster] = odd_cluster) -> int:
    """Plan unusual clusters; print each failure at once."""
    verdicts, searched, seconds = Counter[str](), 0, 0.0
    for case in clusters.cases(count, seed, make):
        verdicts[case.verdict] += 1
        searched, seconds = searched + case.searched, seconds + case.seconds
        if case.verdict != clusters.FINE:
            print(f"cluster {case.seed}: {case.verdict}: {'; '.join(case.details)}", flush=True)
    figures = ", ".join(f"{n} {verdict}" for verdict, n in sorted(verdicts.items()))
    print(f"{figures}; against all placements: {searched}; {seconds:.0f} CPU-s")
    return int(any(verdicts[verdict] for verdict in clusters.BAD))


def of_fleet(count: int, seed: int) -> int:
    """Judge contradicting folders in one Spark run; print those that break no rule."""
    from benchmarks.fuzz import fleet

    folders = list(fleet.contradictions(count, seed))
    with fleet.local_session() as spark:
        silent = fleet.unreported(spark, folders)
    for folder in silent:
        case = folder.case
        print(f"{case.way} {case.file}: {' '.join(case.lost)}\n{changed_lines(case)}")
    print(f"{len(folders)} folders with contradicting sources, {len(silent)} break no rule")
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
    parser.add_argument("--count", type=int, help=f"default: {counts}")
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args(arguments)
    return RUNS[parsed.what](parsed.count or COUNTS[parsed.what], parsed.seed)


if __name__ == "__main__":
    sys.exit(main())
