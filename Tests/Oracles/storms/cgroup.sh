# Read by bash: a memory cgroup with the limits of connd's unit, of version 2 or 1. In a container
# without a writable cgroup, the kernel's socket memory is not counted. The script that reads this
# removes the cgroup.
unit=../../../systemd/connd.service
setting() { sed -n "s/^$1=//p" "$unit"; }

make_cgroup() { # NAME
    local root limit swap
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        root=/sys/fs/cgroup limit=memory.max swap=memory.swap.max peak=memory.peak usage=memory.current
        echo +memory >$root/cgroup.subtree_control || return 1
    else
        root=/sys/fs/cgroup/memory limit=memory.limit_in_bytes swap=memory.swappiness peak=memory.max_usage_in_bytes
        usage=memory.usage_in_bytes
    fi
    mkdir "$root/$1" || return 1
    cgroup=$root/$1
    setting MemoryMax >"$cgroup/$limit" && echo 0 >"$cgroup/$swap"
}
