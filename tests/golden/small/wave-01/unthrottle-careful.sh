#!/bin/sh
# Removes the throttles of wave 1 of cluster orders (run night-1):
# form careful: it throttles only the replicas being copied, with a rate for each broker.
# It restores the values from before the plan. It changes only values that the wave or its rollback has set. Other values
# stay and are named: "left: brokers 3 leader.replication.throttled.rate=5000000: somebody else set it". If you changed a
# rate of the wave yourself, run the wave's throttle script again before this script.
# If no throttle is set, it calls Kafka's tools 3 times; else up to 8 times, and once for each topic and broker that
# --verify leaves throttled (at most 7). You can run it again. It continues after an error.
# Exit codes: 0 all throttles of the wave are removed; values of somebody else may be left. 1 some remain, and are named.
# 4 copies still run: they are named and nothing was changed; FORCE=1 removes the throttles anyway, and the copies then
# run at full speed. 5 only rates of brokers that do not answer remain, and are named.
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
[ -f "$document" ] || document=/dev/null
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

# Topic and partition of each line of the reassignment.
tr '{' '\n' <"$document" | sed -n 's/^"topic":"\([^"]*\)","partition":\([0-9]*\),.*/\1 \2/p' >"$work/wave"

# Topic or broker, config, the wave's own value, and the value from before the plan; "-" if there is none.
cat >"$work/wanted" <<'END'
topics clicks leader.replication.throttled.replicas 1:2,1:3,1:5,2:1,2:4,2:5 -
topics clicks follower.replication.throttled.replicas 1:6,2:7 -
brokers 1 leader.replication.throttled.rate 52000000 -
brokers 2 leader.replication.throttled.rate 53000000 -
brokers 3 leader.replication.throttled.rate 50000000 20000000
brokers 5 leader.replication.throttled.rate 50000000 20000000
brokers 6 follower.replication.throttled.rate 51000000 -
brokers 7 follower.replication.throttled.rate 51000000 -
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
          sub(/ sensitive=.*/, ""); gsub(/[[:space:]]/, "")
          print kind, name, substr($0, 1, index($0, "=") - 1), substr($0, index($0, "=") + 1)
        }' "$work/out"
    else
      echo "can't read the configs of $kind: $(reason)" >&2
      echo "unreadable $kind"
    fi
  done >"$work/current"
}

# Lists what remains: "alter" (the configs of one call), "owed" (the broker does not answer), "unreadable", and "left"
# (somebody else set it: it stays). A list belongs to the wave element by element; a rollback swaps the two lists, so an
# element of one counts for both.
compare() {
  awk '
    function append(list, element) { return list == "" ? element : list "," element }
    function contains(list, element) { return index("," list ",", "," element ",") > 0 }
    function is_throttle(config) {
      return config ~ /^(leader|follower)\.replication\.throttled\.(rate|replicas)$/ ||
        config == "replica.alter.log.dirs.io.max.bytes.per.second"
    }
    # Both set "target", the value to reach, and "others", what somebody else set of it.
    function restore_rate(value, own, before) {
      target = value == own || value == "-" ? before : value
      others = target == before ? "" : target
    }
    function restore_list(value, before,   count, element, i) {
      others = value == "*" && before != "*" ? "*" : ""
      target = value == "*" || before == "*" ? "*" : ""
      if (target == "*") return
      count = value == "-" ? 0 : split(value, element, ",")
      for (i = 1; i <= count; i++)
        if (contains(before, element[i])) target = append(target, element[i])
        else if (!((entity, element[i]) in own_element)) {
          target = append(target, element[i])
          others = append(others, element[i])
        }
      count = before == "-" ? 0 : split(before, element, ",")
      for (i = 1; i <= count; i++) if (!contains(value, element[i])) target = append(target, element[i])
      if (target == "") target = "-"
    }
    function flush() {
      if (add delete_ != "") print "alter", entity, (add == "" ? "-" : add), (delete_ == "" ? "-" : delete_)
      add = delete_ = ""
    }
    pass == "own" {
      is_wanted[$1, $2, $3] = 1
      count = $1 == "topics" && $4 != "-" ? split($4, element, ",") : 0
      for (i = 1; i <= count; i++) own_element[$1 " " $2, element[i]] = 1
    }
    pass == "wave" { in_wave["topics", $1] = 1 }
    pass == "current" {
      if ($1 == "unreadable") unreadable[$2] = 1
      else if (NF == 2) there[$1 " " $2] = 1
      else now[$1 " " $2 " " $3] = $4
      # --verify would remove these, too.
      if (NF == 4 && is_throttle($3) && !(($1, $2, $3) in is_wanted) && ($1 == "brokers" || ($1, $2) in in_wave))
        print "left", $0
    }
    pass == "wanted" {
      if ($1 " " $2 != entity) { flush(); entity = $1 " " $2 }
      key = entity " " $3
      if ($1 in unreadable) print "unreadable", key
      else if (!(entity in there)) { if ($1 == "brokers") print "owed", key }
      else {
        # Compared as text: as numbers, large rates could look equal.
        value = (key in now ? now[key] : "-") ""
        if ($1 == "topics") restore_list(value, $5 ""); else restore_rate(value, $4 "", $5 "")
        if (others != "") print "left", key, others
        if (target == "-" && value != "-") delete_ = append(delete_, $3)
        else if (target != value) add = append(add, $3 "=" (target ~ /,/ ? "[" target "]" : target))
      }
    }
    END { flush() }' \
    pass=own "$work/wanted" pass=wave "$work/wave" pass=current "$work/current" pass=wanted "$work/wanted" >"$work/remaining"
}

if [ "${FORCE:-0}" != 1 ]; then
  if ! tool "$reassign" --list || ! grep -q -e ': replicas: ' -e '^No partition reassignments found' "$work/out"; then
    echo "can't read whether copies still run, so nothing was changed: $(reason)" >&2
    exit 1
  fi
  sed -n 's/^\([^ ]*-[0-9][0-9]*\): replicas: .*/\1/p' "$work/out" >"$work/running"
  if [ -s "$work/running" ]; then
    awk 'pass == "wave" { in_wave[$1 "-" $2] = 1; next }
      { print "still being reassigned, " ($1 in in_wave ? "" : "not ") "of wave 1: " $1 }' \
      pass=wave "$work/wave" pass=running "$work/running" >&2
    echo "nothing was changed: wait until they are done, or run FORCE=1 sh $0" >&2
    exit 4
  fi
fi

read_configs
compare
# --verify removes all rates of live brokers and all lists of the wave's topics in one process, whoever set them. The
# calls after it do the rest and restore the old values. It is skipped if a throttle of somebody else would go with them,
# if a broker does not answer (it would wait a minute), if something is unreadable, or if the document is missing.
if [ -s "$work/wave" ] && [ "$(grep -c '^alter ' "$work/remaining")" -gt 3 ] &&
  ! grep -q -v '^alter ' "$work/remaining"; then
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
  # Of an "alter" line, the third and fourth words are the configs to set and to delete.
  while read -r action kind name config value; do
    case $action in
      alter) echo "remains: $kind $name $(config_names "$config" "$value")" >&2 ;;
      owed) echo "owed: $kind $name $config: the broker does not answer; run this script again when it is back" >&2 ;;
      left) echo "left: $kind $name $config=$value: somebody else set it" >&2 ;;
      *) echo "unreadable: $kind $name $config" >&2 ;;
    esac
  done <"$work/remaining"
  if grep -q -e '^alter ' -e '^unreadable ' "$work/remaining"; then exit 1; fi
  if grep -q '^owed ' "$work/remaining"; then exit 5; fi
fi
echo "All throttles of wave 1 are removed."
