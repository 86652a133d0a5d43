"""Stage 1: read the sources of every cluster into the bronze tables."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["ingest"], __doc__ or ""))
