"""What is handed over: documents that Kafka's tools read, and pages that people read. Pure: rows in, texts out."""
