"""Stage 4: compute the assignment of Kafka's own algorithm."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["baseline"], __doc__ or ""))
