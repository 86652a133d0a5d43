"""Commands that execute a plan wave by wave with Kafka's own tools. They need no Spark and no scheduler."""
