"""Commands that hand a plan to Kafka's own tools, wave after wave: without Spark, with any scheduler or by hand."""
