"""``python -m execution``."""

import sys

from execution.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
