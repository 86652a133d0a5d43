"""Key columns that several tables share, as lists for joins."""

CLUSTER_RUN = ["cluster_id", "run_id"]
# Within one run: a stage sees only the rows of its run.
PARTITION = ["cluster_id", "topic", "partition"]
BROKER = ["cluster_id", "broker_id"]
# With the run.
RUN_PARTITION = [*CLUSTER_RUN, "topic", "partition"]
RUN_BROKER = [*CLUSTER_RUN, "broker_id"]
