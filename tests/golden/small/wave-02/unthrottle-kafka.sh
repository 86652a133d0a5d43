#!/bin/sh
# Removes the throttles of wave 2 of cluster orders (run night-1):
# form kafka: the same as kafka-reassign-partitions.sh --execute --throttle.
# It restores the values from before the plan.
# If no throttle is set, it calls Kafka's tools 3 times; else up to 8 times, and once for each topic and broker that
# --verify leaves throttled (at most 7). You can run it again. It continues after an error.
# Exit codes: 0 all throttles are removed. 1 some remain, and are named. 4 copies still run: they are named and nothing
# was changed; FORCE=1 removes the throttles anyway, and the copies then run at full speed. 5 only rates of brokers that
# do not answer remain, and are named.
# BOOTSTRAP: host:port of a broker. KAFKA_CONFIGS and KAFKA_REASSIGN: paths of the tools if they are not on PATH.
# COMMAND_CONFIG: file of client properties if the cluster requires them.
set -u
: "${BOOTSTRAP:?set BOOTSTRAP to host:port of a broker}"
configs=${KAFKA_CONFIGS:-kafka-configs.sh}
reassign=${KAFKA_REASSIGN:-$(printf '%s\n' "$configs" | sed 's/kafka-configs\([^/]*\)$/kafka-reassign-partitions\1/')}
folder=$(dirname -- "$0")
document=$folder/reassignment.json
# The reassignment of a superseded plan is moved there.
[ -f "$document" ] || document=$folder/not-to-be-executed/reassignment.json
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

tool() {
  program=$1
  shift
  "$program" --bootstrap-server "$BOOTSTRAP" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} "$@" \
    </dev/null >"$work/out" 2>"$work/err"
}

reason() {
  cat "$work/out" "$work/err" | grep -v -e '^Error while executing' -e '^[[:space:]]*at ' -e '^[[:space:]]*$' | head -n 1
}

# Topic or broker, config, and the value to restore; no value if none was set.
cat >"$work/wanted" <<'END'
topics clicks leader.replication.throttled.replicas
topics clicks follower.replication.throttled.replicas
topics orders.v1 leader.replication.throttled.replicas *
topics orders.v1 follower.replication.throttled.replicas
brokers 1 leader.replication.throttled.rate
brokers 1 follower.replication.throttled.rate
brokers 2 leader.replication.throttled.rate
brokers 2 follower.replication.throttled.rate
brokers 3 leader.replication.throttled.rate 20000000
brokers 3 follower.replication.throttled.rate
brokers 5 leader.replication.throttled.rate 20000000
brokers 5 follower.replication.throttled.rate
brokers 7 leader.replication.throttled.rate
brokers 7 follower.replication.throttled.rate
END

# The names of the configs of an "alter" line, without values.
config_names() {
  printf '%s,%s' "$1" "$2" | tr ',' '\n' | sed -n 's/^\([a-z][a-z.]*\).*/\1/p' | paste -s -d , -
}

# Reads what is set now: a line for each topic and broker, and a line for each of its configs.
read_configs() {
  for kind in topics brokers; do
    # The tool still waits for a broker that has just died; at the second call Kafka knows that it is dead.
    if tool "$configs" --describe --entity-type "$kind" || tool "$configs" --describe --entity-type "$kind"; then
      awk -v kind="$kind" '
        /onfigs for / {
          name = ""
          if ($0 ~ /onfigs for (topic|broker) /) { name = $0; sub(/.*onfigs for [a-z]* /, "", name); sub(/ are:.*/, "", name) }
          gsub(/\047/, "", name)
          if (name != "") print kind, name
        }
        / sensitive=/ && name != "" {
          sub(/^[[:space:]]*/, ""); sub(/ sensitive=.*/, "")
          print kind, name, substr($0, 1, index($0, "=") - 1), substr($0, index($0, "=") + 1)
        }' "$work/out"
    else
      echo "can't read the configs of $kind: $(reason)" >&2
      echo "unreadable $kind"
    fi
  done >"$work/current"
}

# Lists what remains to do: "alter" (the configs of one call), "owed" (the broker does not answer) or "unreadable".
compare() {
  awk '
    function flush() {
      if (add delete_ != "") print "alter", entity, (add == "" ? "-" : add), (delete_ == "" ? "-" : delete_)
      add = ""; delete_ = ""
    }
    FILENAME == ARGV[1] {
      if ($1 == "unreadable") unreadable[$2] = 1
      else if (NF == 2) there[$1 " " $2] = 1
      else now[$1 " " $2 " " $3] = $4
      next
    }
    {
      if ($1 " " $2 != entity) { flush(); entity = $1 " " $2 }
      key = entity " " $3
      if ($1 in unreadable) print "unreadable", key
      else if (!(entity in there)) { if ($1 == "brokers") print "owed", key }
      else if ($4 == "") { if (key in now) delete_ = delete_ (delete_ == "" ? "" : ",") $3 }
      else if (!(key in now) || now[key] "" != $4 "")
        add = add (add == "" ? "" : ",") $3 "=" ($4 ~ /,/ ? "[" $4 "]" : $4)
    }
    END { flush() }' "$work/current" "$work/wanted" >"$work/remaining"
}

if [ "${FORCE:-0}" != 1 ]; then
  if ! tool "$reassign" --list || ! grep -q -e ': replicas: ' -e '^No partition reassignments found' "$work/out"; then
    echo "can't read whether copies still run, so nothing was changed: $(reason)" >&2
    exit 1
  fi
  sed -n 's/^\([^ ]*-[0-9][0-9]*\): replicas: .*/\1/p' "$work/out" >"$work/running"
  if [ -s "$work/running" ]; then
    cat "$document" 2>/dev/null | tr '{' '\n' | sed -n 's/^"topic":"\([^"]*\)","partition":\([0-9]*\),.*/\1-\2/p' >"$work/wave"
    awk 'FILENAME == ARGV[1] { in_wave[$1] = 1; next }
      { print "still being reassigned, " ($1 in in_wave ? "" : "not ") "of wave 2: " $1 }' \
      "$work/wave" "$work/running" >&2
    echo "nothing was changed: wait until they are done, or run FORCE=1 sh $0" >&2
    exit 4
  fi
fi

read_configs
compare
# --verify removes all rates of live brokers and all lists of the wave's topics in one process, also those from before
# the plan. The calls after it do the rest and restore the old values. It is skipped if a broker does not answer (it would
# wait a minute) or if the document is missing.
if [ -e "$document" ] && [ "$(grep -c '^alter ' "$work/remaining")" -gt 3 ] && ! grep -q '^owed ' "$work/remaining"; then
  tool "$reassign" --reassignment-json-file "$document" --verify || echo "--verify failed, continuing without it: $(reason)" >&2
  read_configs
  compare
fi
if grep -q '^alter ' "$work/remaining"; then
  while read -r action kind name add remove; do
    [ "$action" = alter ] || continue
    set -- --alter --entity-type "$kind" --entity-name "$name"
    [ "$add" = - ] || set -- "$@" --add-config "$add"
    [ "$remove" = - ] || set -- "$@" --delete-config "$remove"
    tool "$configs" "$@" || echo "failed: $kind $name: $(reason)" >&2
  done <"$work/remaining"
  read_configs
  compare
fi
if [ -s "$work/remaining" ]; then
  while read -r action kind name config deleted; do
    case $action in
      alter) echo "remains: $kind $name $(config_names "$config" "$deleted")" >&2 ;;
      owed) echo "owed: $kind $name $config: the broker does not answer; run this script again when it is back" >&2 ;;
      *) echo "unreadable: $kind $name $config" >&2 ;;
    esac
  done <"$work/remaining"
  if grep -q -v '^owed ' "$work/remaining"; then exit 1; fi
  exit 5
fi
echo "All throttles of wave 2 are removed."
