"""Stage 2: check and clean the bronze rows into the silver tables; exit code 3 if a quality gate refuses them."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["validate"], __doc__ or ""))
