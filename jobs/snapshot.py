"""Stage 3: build the planning problem: brokers, replicas and loads under the policy."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["snapshot"], __doc__ or ""))
