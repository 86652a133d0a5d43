"""Stage 5, solve: the algorithm's steps on partitions in Spark or in memory, and the rows of its tables."""
