"""``python -m benchmarks.fuzz inputs|clusters --count N --seed N``: figures, and what was found."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from benchmarks.fuzz.inputs import BAD, Case, cases


def changed_lines(case: Case) -> str:
    """The first lines that differ."""
    before, after = case.before.splitlines(), case.after.splitlines()
    at = next((i for i, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(after))
    return f"    was {before[at : at + 2]!r:.300}\n    is  {after[at : at + 2]!r:.300}"


def inputs(count: int, seed: int) -> int:
    """Read mutated folders; show verdicts by way, and an example of each class that must not be."""
    verdicts: dict[str, Counter[str]] = {}
    bad: dict[tuple[str, ...], list[Case]] = {}
    for case in cases(count, seed):
        verdicts.setdefault(case.way, Counter())[case.verdict] += 1
        if case.verdict in BAD:
            bad.setdefault((case.verdict, case.way, case.file, *case.lost), []).append(case)
    names = sorted({name for found in verdicts.values() for name in found})
    total = sum(verdicts.values(), Counter())
    print(f"{'':16}" + "".join(f"{name:>10}" for name in names))
    for way, found in {**verdicts, "all": total}.items():
        print(f"{way:16}" + "".join(f"{found[name]:10}" for name in names))
    for key, some in sorted(bad.items()):
        print(f"\n{len(some)} x {' '.join(key)}\n{changed_lines(min(some, key=lambda case: len(case.after)))}")
    return int(bool(bad))


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz")
    parser.add_argument("what", choices=("inputs",))
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    return inputs(asked.count, asked.seed)


if __name__ == "__main__":
    sys.exit(main())
