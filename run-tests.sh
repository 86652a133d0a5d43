#!/usr/bin/env bash
# ./run-tests.sh                  lint, format, types, import direction, then the tests of the daily tier
# ./run-tests.sh --all            the same checks, then every test
# ./run-tests.sh PYTEST_ARGUMENTS only these tests
set -euo pipefail
root=$(dirname -- "$(readlink -f -- "$0")")
. "$root/setup/find-python.sh"
cd -- "$root"
"$python" -P -m setup.environment dev
exec .venv/bin/python -P -m setup.checks "$@"
