#!/bin/sh
# Sets the throttles of wave 1 of cluster orders (run night-1):
# the form that kafka-reassign-partitions.sh --execute --throttle sets.
# BOOTSTRAP names the cluster. KAFKA_CONFIGS is the tool's path where it is not on PATH; COMMAND_CONFIG a file of
# client properties where the cluster asks for them.
set -eu
: "${BOOTSTRAP:?set BOOTSTRAP to host:port of a broker}"
configs() {
  "${KAFKA_CONFIGS:-kafka-configs.sh}" --bootstrap-server "$BOOTSTRAP" \
    ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} --alter --entity-type "$1" --entity-name "$2" "$3" "$4"
}
configs topics 'clicks' --add-config 'leader.replication.throttled.replicas=[1:2,1:3,1:5,2:1,2:4,2:5],follower.replication.throttled.replicas=[1:6,2:7]'
configs brokers '1' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '2' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '3' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
# Dead, nobody can set it: configs brokers '4' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '5' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '6' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
configs brokers '7' --add-config 'leader.replication.throttled.rate=53000000,follower.replication.throttled.rate=53000000'
