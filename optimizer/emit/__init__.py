"""Documents for Kafka's tools and pages for people. Pure: rows in, texts out."""
