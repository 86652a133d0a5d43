"""Ballast: plans Kafka partition reassignments with a proven bound on the bytes that they move."""

import os

VERSION = "1.0.0"  # of the release; CHANGELOG.md has what is new in it
# The search for the leaders' prices (scipy) rounds by its number of threads, and so would plans. Spark's workers have
# one; a driver and ``ask`` have it too, because scipy reads this when it is imported, after this package.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
