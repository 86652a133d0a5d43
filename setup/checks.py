"""Runs the checks of the project, then the tests of the daily tier; with ``--all`` every test.

Any other arguments go to pytest; then only these tests run, without checks.
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
# Every test, in four processes on two cores, because many tests only wait. Tests that share a fixture run together
# (``tests/conftest.py``).
ALL_TESTS = ("-n", "4", "--dist", "loadscope", "--no-loadscope-reorder")
# Without the marked tests, and with fewer examples for properties that plan whole clusters (``tests/tiers.py``).
DAILY_TESTS = (*ALL_TESTS, "-m", "not all_only", "--hypothesis-profile", "daily")
TIERS = {(): DAILY_TESTS, ("--all",): ALL_TESTS}


def run_checks(checks: tuple[tuple[str, ...], ...] = CHECKS) -> list[str]:
    """Run every check, even after a failure; returns the names of the failed checks."""
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
