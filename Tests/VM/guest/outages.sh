#!/bin/bash
# Outages beyond the machine, with the options that shorten them, if the kernel has these (C11). A
# kernel before 6.15 has only one of the two, which alone would end the connection.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh
. ./connection.sh
. ./uplinks.sh

# outage SECONDS OPTIONS: checks that the connection had these options, and that it continues after
# an outage.
outage() {
    local said
    said=$(python3 -B outage.py $server "$1") || { echo "$said"; return 1; }
    echo "# $said" >&2
    [[ $said == "$2: b'x\\n' "* ]] || { echo "$said"; return 1; }
}

check "boot → connd.service is active" within 120 is active systemctl is-active connd.service
check "the default route uses the cable → connd reports an online path" connctl wait online --timeout 2m
echo "# on $(uname -r)"
if printf '6.15\n%s\n' "$(uname -r)" | sort --version-sort --check=quiet; then
    options='user timeout 924600, longest wait 2000'
else
    options='user timeout 0, longest wait unknown'
fi
for seconds in 5 30; do
    check "C11 all answers are lost for $seconds s → the connection continues, with: $options" outage $seconds "$options"
done
finish connd.service
