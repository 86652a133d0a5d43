#!/bin/sh
# Takes off the throttles of wave 2 of cluster orders (run night-1):
# the form that kafka-reassign-partitions.sh --execute --throttle sets.
# What was set before the plan is put back.
# It calls Kafka's tools 3 times where nothing is left, else up to 8 times and once for each topic and broker where
# --verify leaves something (7 at most). Run it again as often as you like; it goes on after an error.
# Exit codes: 0 nothing is left. 1 something is left, and is named. 4 copies still run: they are named and nothing was
# touched; FORCE=1 goes on all the same, and what still copies then does so without a throttle. 5 all that is left are
# rates of brokers that do not answer: they are named.
# BOOTSTRAP names the cluster. KAFKA_CONFIGS and KAFKA_REASSIGN are the tools' paths where they are not on PATH;
# COMMAND_CONFIG a file of client properties where the cluster asks for them.
set -u
: "${BOOTSTRAP:?set BOOTSTRAP to host:port of a broker}"
configs=${KAFKA_CONFIGS:-kafka-configs.sh}
reassign=${KAFKA_REASSIGN:-$(printf '%s\n' "$configs" | sed 's/kafka-configs\([^/]*\)$/kafka-reassign-partitions\1/')}
here=$(dirname -- "$0")
document=$here/reassignment.json
# Where the plan is superseded, its reassignment is set aside.
[ -f "$document" ] || document=$here/not-to-be-executed/reassignment.json
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

# Topic or broker, config, and the value that is put back: none where none was set.
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

# Names of the configs of one "alter" line, without their values.
names() {
  printf '%s,%s' "$1" "$2" | tr ',' '\n' | sed -n 's/^\([a-z][a-z.]*\).*/\1/p' | paste -s -d , -
}

# What is set now: a line for each topic and broker that is there, and one for each of its configs.
look() {
  for kind in topics brokers; do
    # A broker that has just died is still asked for a while; the second time it is known to be dead.
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
      echo "can't see the configs of $kind: $(reason)" >&2
      echo "unseen $kind"
    fi
  done >"$work/found"
}

# What is left: "alter", with all that one call does; "owed" by a broker that does not answer; "unseen".
compare() {
  awk '
    function flush() {
      if (add delete_ != "") print "alter", entity, (add == "" ? "-" : add), (delete_ == "" ? "-" : delete_)
      add = ""; delete_ = ""
    }
    FILENAME == ARGV[1] {
      if ($1 == "unseen") unseen[$2] = 1
      else if (NF == 2) there[$1 " " $2] = 1
      else now[$1 " " $2 " " $3] = $4
      next
    }
    {
      if ($1 " " $2 != entity) { flush(); entity = $1 " " $2 }
      key = entity " " $3
      if ($1 in unseen) print "unseen", key
      else if (!(entity in there)) { if ($1 == "brokers") print "owed", key }
      else if ($4 == "") { if (key in now) delete_ = delete_ (delete_ == "" ? "" : ",") $3 }
      else if (!(key in now) || now[key] "" != $4 "")
        add = add (add == "" ? "" : ",") $3 "=" ($4 ~ /,/ ? "[" $4 "]" : $4)
    }
    END { flush() }' "$work/found" "$work/wanted" >"$work/left"
}

if [ "${FORCE:-0}" != 1 ]; then
  if ! tool "$reassign" --list || ! grep -q -e ': replicas: ' -e '^No partition reassignments found' "$work/out"; then
    echo "not known whether copies still run, so nothing was touched: $(reason)" >&2
    exit 1
  fi
  sed -n 's/^\([^ ]*-[0-9][0-9]*\): replicas: .*/\1/p' "$work/out" >"$work/running"
  if [ -s "$work/running" ]; then
    cat "$document" 2>/dev/null | tr '{' '\n' | sed -n 's/^"topic":"\([^"]*\)","partition":\([0-9]*\),.*/\1-\2/p' >"$work/wave"
    awk 'FILENAME == ARGV[1] { of[$1] = 1; next }
      { print "still being reassigned, " ($1 in of ? "" : "not ") "of wave 2: " $1 }' \
      "$work/wave" "$work/running" >&2
    echo "nothing was touched; wait, or run FORCE=1 sh $0" >&2
    exit 4
  fi
fi

look
compare
# All rates of brokers that live, and all lists of the wave's topics, in one process. It also takes off what was set
# before; what it can't do, and what is put back, follows. A broker that does not answer would hold it up for a minute.
# Where the document is gone, all is done one by one.
if [ -e "$document" ] && [ "$(grep -c '^alter ' "$work/left")" -gt 3 ] && ! grep -q '^owed ' "$work/left"; then
  tool "$reassign" --reassignment-json-file "$document" --verify || echo "--verify failed, going on: $(reason)" >&2
  look
  compare
fi
if grep -q '^alter ' "$work/left"; then
  while read -r what kind name add remove; do
    [ "$what" = alter ] || continue
    set -- --alter --entity-type "$kind" --entity-name "$name"
    [ "$add" = - ] || set -- "$@" --add-config "$add"
    [ "$remove" = - ] || set -- "$@" --delete-config "$remove"
    tool "$configs" "$@" || echo "failed: $kind $name: $(reason)" >&2
  done <"$work/left"
  look
  compare
fi
if [ -s "$work/left" ]; then
  while read -r what kind name config more; do
    case $what in
      alter) echo "left: $kind $name $(names "$config" "$more")" >&2 ;;
      owed) echo "owed: $kind $name $config: the broker does not answer; run this script again when it is back" >&2 ;;
      *) echo "not known: $kind $name $config" >&2 ;;
    esac
  done <"$work/left"
  if grep -q -v '^owed ' "$work/left"; then exit 1; fi
  exit 5
fi
echo "Nothing is left of the throttles of wave 2."
