"""All seven stages, from the sources to the files, in one session."""

import sys

from optimizer.cli import main
from optimizer.declared import NAMES

if __name__ == "__main__":
    sys.exit(main(NAMES, __doc__ or ""))
