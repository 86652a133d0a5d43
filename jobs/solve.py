"""Stage 5: the least movement within the bands, with its bound."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["solve"], __doc__ or ""))
