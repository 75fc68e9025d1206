#!/bin/bash
# with: Fixtures/recordings
# Runs the commands of Tests/Fixtures/recordings/make on this VM's kernel. connd must report the
# same events as on the kernel of the recordings. The times may differ, and the cause, because one
# change may send several messages. The replay of each new recording must print the same again.
cd "$(dirname "$(readlink -f "$0")")" || exit
. ./tap.sh

# events FILE: the reported events, without their times and messages.
events() { sed -E 's/"(since|time)": [^,}]*/"\1": -/g; s/"cause": \{[^}]*\}/"cause": -/' "$1"; }
same() { diff <(events "recordings/$1.json") <(events "/run/recordings/$1.json"); }

mkdir /run/recordings
cp recordings/make /run/recordings
echo "# on $(uname -r)"
for name in uplink-lost flapping failover containers default-route questions tunnel; do
    check "$name is recorded on this kernel" /run/recordings/make /usr/bin/connd /usr/bin/connctl $name
    check "$name on this kernel → connd reports the same events as in the stored recording" same $name
    check "$name is replayed → connd prints the same events as when it was recorded" diff <(connd --replay /run/recordings/$name.recording) /run/recordings/$name.json
done
finish connd.service
