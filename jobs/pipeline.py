"""Run all seven stages in one Spark session."""

import sys

from optimizer.cli import main
from optimizer.declared import NAMES

if __name__ == "__main__":
    sys.exit(main(NAMES, __doc__ or ""))
