"""All seven stages, from the sources to the files, in one session."""

import sys

from optimizer.cli import main

STAGES = ["ingest", "validate", "snapshot", "baseline", "solve", "plan", "emit"]

if __name__ == "__main__":
    sys.exit(main(STAGES, __doc__ or ""))
