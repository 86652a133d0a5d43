"""Stage 7: audit the plan and write the files that Kafka's tools execute."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["emit"], __doc__ or ""))
