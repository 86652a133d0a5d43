#!/usr/bin/env bash
# Downloads Kafka's broker and tools into .jars/kafka and the tools of Kafka 3.9 into .jars/kafka39, once.
# To start a broker: java -cp '.jars/kafka/*' kafka.Kafka server.properties
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
exec .venv/bin/python -m setup.jars kafka kafka39
