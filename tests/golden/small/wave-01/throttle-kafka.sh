#!/bin/sh
# Sets the throttles of wave 1 of cluster orders (run night-1):
# form kafka: the same as kafka-reassign-partitions.sh --execute --throttle.
# It calls kafka-configs.sh 7 times. You can run it again. It continues after an error, names what it
# could not set and ends with exit code 1. Then don't execute the wave: it would copy without a throttle.
# BOOTSTRAP: host:port of a broker. KAFKA_CONFIGS: path of the tool if it is not on PATH. COMMAND_CONFIG: file of client
# properties if the cluster requires them.
set -u
: "${BOOTSTRAP:?set BOOTSTRAP to host:port of a broker}"
missing=0
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
trap 'exit 1' HUP INT TERM
configs() {
  "${KAFKA_CONFIGS:-kafka-configs.sh}" --bootstrap-server "$BOOTSTRAP" \
    ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} --alter --entity-type "$1" --entity-name "$2" "$3" "$4" \
    </dev/null >"$output" 2>&1 && return
  missing=$((missing + 1))
  echo "not set: $1 $2: $(grep -v -e '^Error while executing' -e '^[[:space:]]*at ' "$output" | head -n 1)" >&2
}
configs topics 'clicks' --add-config 'leader.replication.throttled.replicas=[1:2,1:3,1:5,2:1,2:4,2:5],follower.replication.throttled.replicas=[1:6,2:7]'
configs brokers '1' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '2' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '3' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
# Broker is dead, so this cannot be set: configs brokers '4' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '5' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '6' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '7' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
if [ "$missing" -gt 0 ]; then
  echo "$missing of 7 are not set: don't execute wave 1; fix the errors above and run this script again" >&2
  exit 1
fi
echo "The throttles of wave 1 are set."
