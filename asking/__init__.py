"""Questions about plans, without Spark: what-if, judging plans of other tools, and comparing two runs."""
