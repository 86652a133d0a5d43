"""Stage 2: check and clean the bronze rows into the silver tables; exit code 3 where the gate refuses."""

import sys

from optimizer.cli import main

if __name__ == "__main__":
    sys.exit(main(["validate"], __doc__ or ""))
