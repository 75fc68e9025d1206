# Sourced by bash: the machines of machine.h. The sourcing script removes the namespaces in the end.
namespaces=()
inside() { ip netns exec "$1" "${@:2}"; }

make_machine() { # NAMESPACE
    local i namespace
    for namespace in "$1" "$1-far"; do
        ip netns add "$namespace"
        namespaces+=("$namespace")
        inside "$namespace" sysctl -qw net.ipv6.conf.default.disable_ipv6=1
        ip -n "$namespace" link set lo up
    done
    for i in 0 1 2 3 4 5; do
        # Moved, so that it has another index than its peer: the kernel reports such a link
        # immediately, and others once a second (linkwatch_urgent_event).
        ip -n "$1" link add "v$i" type veth peer name "p$i"
        ip -n "$1" link set "p$i" netns "$1-far"
        ip -n "$1-far" link set "p$i" up
        ip -n "$1" link set "v$i" up
        ip -n "$1" address add "10.$i.0.2/$([ $i = 5 ] && echo 16 || echo 24)" dev "v$i"
    done
    ip -n "$1" route add default via 10.0.0.1
}
