#!/usr/bin/env bash
# benchmarks/bench.sh [options]: plans and judges the benchmark instances and writes docs/benchmark.md
set -euo pipefail
root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
. "$root/setup/find-python.sh"
"$python" -P -m setup.environment
exec "$root/.venv/bin/python" -m benchmarks "$@"
