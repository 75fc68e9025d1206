# For scripts that run in a private mount namespace: a minimal Debian 12, and layers on top of it.
# The memory holds all of it, at most six gigabytes.

work=/mnt  # visible only here

# begin PACKAGE...: creates the root, with the checkout's files in /clone.
begin() {
    local packages
    packages=$(printf ',%s' "$@")
    mount -t tmpfs -o size=6g tmpfs "$work"
    mmdebstrap --quiet --variant=minbase --include="${packages:1}" bookworm "$work/begin" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; exit 1; }
    # With the same network access as this machine.
    cp -r /etc/apt/apt.conf.d "$work/begin/etc/apt/"
    cp -r /etc/ssl/certs/. "$work/begin/etc/ssl/certs/"
    cp -L /etc/resolv.conf "$work/begin/etc/"
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$work/begin/etc/"
    mkdir "$work/begin/clone"
    git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard |
        xargs -0 cp --parents --no-dereference -t "$work/begin/clone"
}

# layer NAME LOWER SCRIPT [ARG...]: runs the script in the root of these layers, a list with colons
# and the highest first, and keeps its changes as the layer NAME/upper. The directories in `shared`
# are this machine's.
layer() {
    local name=$1 root=$work/$1/root lower=$work/${2//:/:$work/} script=$3
    mkdir -p "$work/$name"/{upper,work,root}
    mount -t overlay -o "lowerdir=$lower,upperdir=$work/$name/upper,workdir=$work/$name/work" overlay "$root"
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    for directory in ${shared:-}; do
        mkdir -p "$root$directory"
        mount --bind "$directory" "$root$directory"
    done
    install -m 755 "$script" "$root/inside"
    chroot "$root" /usr/bin/env --ignore-environment HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LC_ALL=C.UTF-8 $(env | grep -E '^(unneeded|SWIFT_BIN|PIP_[A-Z_]*|https?_proxy|no_proxy|SOURCE_DATE_EPOCH)=' || true) /inside "${@:4}"
    umount --recursive "$root"
}
