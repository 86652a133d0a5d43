"""Stage 4: what Kafka's own algorithm would assign."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["baseline"], __doc__ or ""))
