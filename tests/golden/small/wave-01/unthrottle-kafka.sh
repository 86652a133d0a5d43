#!/bin/sh
# Removes the throttles of wave 1 of cluster orders (run night-1):
# the form that kafka-reassign-partitions.sh --execute --throttle sets.
# BOOTSTRAP names the cluster. KAFKA_CONFIGS is the tool's path where it is not on PATH; COMMAND_CONFIG a file of
# client properties where the cluster asks for them.
set -eu
: "${BOOTSTRAP:?set BOOTSTRAP to host:port of a broker}"
configs() {
  "${KAFKA_CONFIGS:-kafka-configs.sh}" --bootstrap-server "$BOOTSTRAP" \
    ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} --alter --entity-type "$1" --entity-name "$2" "$3" "$4"
}
configs topics 'clicks' --delete-config 'leader.replication.throttled.replicas,follower.replication.throttled.replicas'
configs brokers '1' --delete-config 'leader.replication.throttled.rate,follower.replication.throttled.rate'
configs brokers '2' --delete-config 'leader.replication.throttled.rate,follower.replication.throttled.rate'
configs brokers '3' --delete-config 'leader.replication.throttled.rate,follower.replication.throttled.rate'
# Dead, nobody can set it: configs brokers '4' --delete-config 'leader.replication.throttled.rate,follower.replication.throttled.rate'
configs brokers '5' --delete-config 'leader.replication.throttled.rate,follower.replication.throttled.rate'
configs brokers '6' --delete-config 'leader.replication.throttled.rate,follower.replication.throttled.rate'
configs brokers '7' --delete-config 'leader.replication.throttled.rate,follower.replication.throttled.rate'
