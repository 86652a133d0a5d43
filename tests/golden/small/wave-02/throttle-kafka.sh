#!/bin/sh
# Sets the throttles of wave 2 of cluster orders (run night-1):
# the form that kafka-reassign-partitions.sh --execute --throttle sets.
# BOOTSTRAP names the cluster. KAFKA_CONFIGS is the tool's path where it is not on PATH; COMMAND_CONFIG a file of
# client properties where the cluster asks for them.
set -eu
: "${BOOTSTRAP:?set BOOTSTRAP to host:port of a broker}"
configs() {
  "${KAFKA_CONFIGS:-kafka-configs.sh}" --bootstrap-server "$BOOTSTRAP" \
    ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} --alter --entity-type "$1" --entity-name "$2" "$3" "$4"
}
configs topics 'clicks' --add-config 'leader.replication.throttled.replicas=[10:1,10:3,10:5],follower.replication.throttled.replicas='
configs topics 'orders.v1' --add-config 'leader.replication.throttled.replicas=[0:1,0:2,0:5,1:1,1:3,1:5],follower.replication.throttled.replicas=[0:7,1:7]'
configs brokers '1' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '2' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '3' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '5' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '7' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
