"""Key columns that several tables share: lists, as joins take them."""

CLUSTER_RUN = ["cluster_id", "run_id"]
# Among the rows of one run, which are all that a stage sees.
PARTITION = ["cluster_id", "topic", "partition"]
BROKER = ["cluster_id", "broker_id"]
# Where the run goes along.
RUN_PARTITION = [*CLUSTER_RUN, "topic", "partition"]
RUN_BROKER = [*CLUSTER_RUN, "broker_id"]
