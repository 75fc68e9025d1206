# Sourced by ./run: unpacks Debian's packages of the peers, with all that they need and the machine
# lacks, into a directory. They are not installed, so no daemon starts and no file of the machine
# changes.

# unpack_packages DIRECTORY PACKAGE...
unpack_packages() {
    local directory=$1 archive
    [ ! -e "$directory/complete" ] || return 0
    rm -rf "$directory"
    mkdir -p "$directory"/{archives/partial,usr,lib}
    local download=(apt-get --yes --quiet --quiet --no-install-recommends --download-only
        -o Debug::NoLocking=yes -o "Dir::Cache::archives=$directory/archives/" install "${@:2}")
    "${download[@]}" >/dev/null 2>&1 || { apt-get --quiet --quiet update && "${download[@]}" >/dev/null; }
    for archive in "$directory"/archives/*.deb; do
        [ ! -e "$archive" ] || dpkg-deb --extract "$archive" "$directory"
    done
    # Debian 12 has one /usr, but its packages still have files in /lib.
    cp --archive "$directory/lib/." "$directory/usr/lib/"
    rm -rf "$directory/archives"
    touch "$directory/complete"
}
