#!/usr/bin/env bash
# Fetches Kafka's broker and tools into .jars/kafka, once: java -cp '.jars/kafka/*' kafka.Kafka server.properties
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
exec .venv/bin/python -m setup.jars kafka
