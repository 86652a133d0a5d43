"""Stage 6: compare the plan with the baseline; split it into waves with throttles and times."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["plan"], __doc__ or ""))
