#!/bin/bash
# with: Fixtures/recordings
# Runs the commands of Tests/Fixtures/recordings/make on this VM's kernel. connd must report the
# same as on the kernel of the recordings, except for the times, and for which of several messages
# of one change it has read first. Each recording made here must be reproduced by its replay.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh

# events FILE: the reported events, without their times and messages.
events() { sed -E 's/"(since|time)": [^,}]*/"\1": -/g; s/"cause": \{[^}]*\}/"cause": -/' "$1"; }
same() { diff <(events "recordings/$1.json") <(events "/run/recordings/$1.json"); }

mkdir /run/recordings
cp recordings/make /run/recordings
echo "# on $(uname -r)"
for name in uplink-lost flapping failover containers default-route questions tunnel; do
    check "$name is recorded" /run/recordings/make /usr/bin/connd /usr/bin/connctl $name
    check "$name: connd says the same" same $name
    check "$name is replayed" diff <(connd --replay /run/recordings/$name.recording) /run/recordings/$name.json
done
finish connd.service
