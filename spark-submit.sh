#!/usr/bin/env bash
# ./spark-submit.sh               prepares everything once, then plans the bundled sample cluster
# ./spark-submit.sh JOB [options] runs a job; ./spark-submit.sh --help lists them
set -euo pipefail
root=$(dirname -- "$(readlink -f -- "$0")")
. "$root/setup/find-python.sh"
exec "$python" -P -m setup.submit "$@"
