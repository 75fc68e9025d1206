# Sourced by the scenarios: one connection that carries bytes, and connd's reports to its guard.

server=198.51.100.9
# serve NAMESPACE: starts the echo server there.
serve() {
    ip -n "$1" address add $server/32 dev lo
    systemd-run --quiet --unit="server-$1" ip netns exec "$1" busybox nc -ll -p 7 -e cat
}

configure() {
    cat >/etc/connd/connd.yaml
    systemctl reload connd.service
}
# told FILE REGEX: whether connctl's output in FILE has a match.
told() { grep -E "$2" "$1" || { cat "$1"; return 1; }; }
untold() { ! grep -E "$2" "$1"; }

# switches: prints how often connd's threads have waited so far (voluntary context switches).
switches() {
    awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }' \
        "/proc/$(systemctl show connd.service --property=MainPID --value)"/task/*/status
}
# asleep COMMAND [ARG...]: whether connd is not woken while COMMAND runs.
asleep() {
    local before
    before=$(switches)
    "$@" && is "$before" switches
}

# lists LINK WORD...: whether connctl's listing of the link has them.
lists() {
    local name=$1 link word
    shift
    link=$(connctl links --json | grep "\"name\": *\"$name\"")
    for word; do grep -qF -- "$word" <<<"$link" || { echo "$link"; return 1; }; done
}

# call ADDRESS: opens a connection from ADDRESS to the server, and has connd guard it.
call() {
    exec {socket}<>"/dev/tcp/$server/7"
    connctl guard "$server:7" --local "$1" --json >/run/guard 2>&1 &
    guard=$!
    check "a new connection from ${1:?} → connctl guard reports a satisfied path" within 30 told /run/guard '"satisfied".*"source": ?"'"$1"'"'
    check "the new connection echoes" echoes
}
# echoes [SECONDS]: whether the server answers on the connection.
echoes() {
    local line
    echo "hello $SECONDS" >&$socket && read -r -t "${1:-120}" -u $socket line && [[ $line == hello* ]]
}
# dead: whether the server does not answer on the connection within 3 s.
dead() { ! echoes 3; }
# over: whether connctl guard has exited.
over() { ! kill -0 $guard 2>/dev/null; }
