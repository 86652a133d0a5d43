"""Stage 5: find the plan with the least copied bytes within the bands, and a proven lower bound."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["solve"], __doc__ or ""))
