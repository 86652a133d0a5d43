"""Runs the checks of the project, then tests: those of the daily tier, or with ``--all`` every one.

With other arguments it runs only the tests, which get them.
"""

import subprocess
import sys

from setup.paths import HOME, VENV

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports", "--no-logo"),
)
# Every test: three at a time, because some only wait; those that share something together (``tests/conftest.py``).
ALL_TESTS = ("-n", "3", "--dist", "loadscope", "--no-loadscope-reorder")
# Without the marked ones, and with fewer examples of the properties that plan whole clusters (``tests/tiers.py``).
DAILY_TESTS = (*ALL_TESTS, "-m", "not all_only", "--hypothesis-profile", "daily")
TIERS = {(): DAILY_TESTS, ("--all",): ALL_TESTS}


def run_checks(checks: tuple[tuple[str, ...], ...] = CHECKS) -> list[str]:
    """Run each check, also after one has failed; returns those that failed."""
    failed = []
    for check in checks:
        name = " ".join(check)
        print(f"== {name}", flush=True)
        if subprocess.run([str(VENV / "bin" / check[0]), *check[1:]], cwd=HOME, check=False).returncode:
            failed.append(name)
    return failed


def main(arguments: list[str]) -> int:
    """Run checks and tests; returns the exit code."""
    tier = TIERS.get(tuple(arguments))
    failed = run_checks() if tier else []
    for name in failed:
        print(f"FAILED: {name}", flush=True)
    print("== pytest", flush=True)
    tests = subprocess.run([str(VENV / "bin" / "python"), "-m", "pytest", *(tier or arguments)], cwd=HOME, check=False)
    return tests.returncode or int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
