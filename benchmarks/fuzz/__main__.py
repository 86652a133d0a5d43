"""``python -m benchmarks.fuzz inputs|clusters|racks|directories|fleet --count N --seed N``: print figures and failures.

The exit code is 1 if there is a failure.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.fuzz import clusters, inputs
from benchmarks.fuzz.unusual_clusters import UnusualCluster, full_cluster, jbod_cluster, tiered_cluster, unusual_cluster

# Default number of cases of each kind.
COUNTS = {"inputs": 20_000, "clusters": 5_000, "racks": 5_000, "directories": 5_000, "fleet": 48}


def changed_lines(case: inputs.Case) -> str:
    """The first lines that differ."""
    before, after = case.before.splitlines(), case.after.splitlines()
    line = next((i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(after))
    return f"    was {before[line : line + 2]!r:.300}\n    is  {after[line : line + 2]!r:.300}"


def run_inputs(count: int, seed: int) -> int:
    """Read mutated folders; print verdicts by mutation, and an example of each failure."""
    verdicts: dict[str, Counter[str]] = {}
    failures: dict[tuple[str, ...], list[inputs.Case]] = {}
    for case in inputs.cases(count, seed):
        verdicts.setdefault(case.mutation, Counter())[case.verdict] += 1
        if case.verdict in inputs.BAD:
            failures.setdefault((case.verdict, case.mutation, case.file, *case.lost), []).append(case)
    names = sorted({name for counts in verdicts.values() for name in counts})
    print(f"{'':16}" + "".join(f"{name:>14}" for name in names))
    for mutation, counts in {**verdicts, "all": sum(verdicts.values(), Counter[str]())}.items():
        print(f"{mutation:16}" + "".join(f"{counts[name]:14}" for name in names))
    for key, examples in sorted(failures.items()):
        print(f"\n{len(examples)} x {' '.join(key)}\n{changed_lines(min(examples, key=lambda case: len(case.after)))}")
    return int(bool(failures))


def run_clusters(count: int, seed: int, make: Callable[[int], UnusualCluster] = unusual_cluster) -> int:
    """Plan unusual clusters; print each failure when it occurs."""
    verdicts, searched, seconds = Counter[str](), 0, 0.0
    for case in clusters.cases(count, seed, make):
        verdicts[case.verdict] += 1
        searched, seconds = searched + case.searched, seconds + case.seconds
        if case.verdict != clusters.FINE:
            print(f"cluster {case.seed}: {case.verdict}: {'; '.join(case.details)}", flush=True)
    figures = ", ".join(f"{n} {verdict}" for verdict, n in sorted(verdicts.items()))
    print(f"{figures}; compared with all placements: {searched}; {seconds:.0f} CPU-s")
    return int(any(verdicts[verdict] for verdict in clusters.BAD))


def run_fleet(count: int, seed: int) -> int:
    """Validate contradicting folders in one Spark run; print those that break no rule."""
    from benchmarks.fuzz import fleet

    folders = list(fleet.contradictions(count, seed))
    with fleet.local_session() as spark:
        unreported = fleet.unreported(spark, folders)
    for folder in unreported:
        case = folder.case
        print(f"{case.mutation} {case.file}: {' '.join(case.lost)}\n{changed_lines(case)}")
    print(f"{len(folders)} folders with contradicting sources, {len(unreported)} break no rule")
    return int(bool(unreported))


RUNS: Mapping[str, Callable[[int, int], int]] = {
    "inputs": run_inputs,
    "clusters": run_clusters,
    "racks": partial(run_clusters, make=full_cluster),
    "directories": partial(run_clusters, make=jbod_cluster),
    "tiered": partial(run_clusters, make=tiered_cluster),
    "fleet": run_fleet,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz")
    parser.add_argument("kind", choices=RUNS)
    counts = ", ".join(f"{count:,} {name}" for name, count in COUNTS.items())
    parser.add_argument("--count", type=int, help=f"default: {counts}")
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args(arguments)
    return RUNS[parsed.kind](parsed.count or COUNTS[parsed.kind], parsed.seed)


if __name__ == "__main__":
    sys.exit(main())
