"""Runs the checks of the project, then the tests of the daily tier; with ``--all`` every test.

Any other arguments go to pytest; then only these tests run, without checks.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

from setup.children import GRACE_SECONDS, adopt_orphans, end_children
from setup.paths import HOME, VENV

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports", "--no-logo"),
)
# Four processes on two cores, because many tests only wait. Tests that share a fixture run together
# (``tests/conftest.py``).
ALL_TESTS = ("-n", "4", "--dist", "loadscope", "--no-loadscope-reorder")
# Without the marked tests, and with fewer examples for properties that plan whole clusters (``tests/tiers.py``).
DAILY_TESTS = (*ALL_TESTS, "-m", "not all_only", "--hypothesis-profile", "daily")
INTERRUPTED = 128 + signal.SIGINT  # the exit code after Ctrl-C
# The marked tests in a run of their own, at the end: on a slow day CI has no time for all of them.
UNMARKED, MARKED = (*ALL_TESTS, "-m", "not all_only"), (*ALL_TESTS, "-m", "all_only")
TIERS: dict[tuple[str, ...], list[tuple[str, ...]]] = {(): [DAILY_TESTS], ("--all",): [UNMARKED, MARKED]}


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
    result = 0
    for options in tier or [tuple(arguments)]:
        print(f"== pytest {' '.join(options)}", flush=True)
        code = run_and_end_all([str(VENV / "bin" / "python"), "-m", "pytest", *options])
        result = result or code
        if code == INTERRUPTED:
            break
    return result or int(bool(failed))


def run_and_end_all(command: list[str]) -> int:
    """Run a command; at its end, at Ctrl-C and at SIGTERM, nothing that it has started stays.

    Returns the exit code. Test servers have sessions of their own, so a terminal's signal does not reach them. Linux
    gives what has lost its parent to this process; other systems leave it.
    """
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the end of an earlier run has ignored it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    process = subprocess.Popen(command, cwd=HOME)
    try:
        while (ended := os.waitpid(-1, 0))[0] != process.pid:
            pass  # a process that had lost its parent
        return os.waitstatus_to_exitcode(ended[1])
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(GRACE_SECONDS)  # the terminal has told it, too
        return INTERRUPTED
    finally:
        end_children()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
