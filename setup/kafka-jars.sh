#!/usr/bin/env bash
# Downloads Kafka's broker and tools into .jars/kafka, the tools of Kafka 3.9 into .jars/kafka39, and a tiered storage
# for tests into .jars/kafka-tiered, once.
# To start a broker: java -cp '.jars/kafka/*' kafka.Kafka server.properties
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
exec .venv/bin/python -m setup.jars kafka kafka39 kafka-tiered
