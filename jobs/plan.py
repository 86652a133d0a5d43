"""Stage 6: the plan beside the baseline, in waves with throttles and times."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["plan"], __doc__ or ""))
