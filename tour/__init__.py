"""A tour on a local Kafka, and the local Kafka itself, which the tests use too."""
