#!/bin/bash
# generate-protobuf.sh [--check]: generates the code of the .proto files: connd's API, gRPC's
# standard services, the format of recordings, and the example. protoc-gen-messages generates
# messages and methods, and Tests/Fixtures/messages/make generates bytes of messages for tests. The
# plugins of the packages that the example is built against generate its code. With --check,
# compares instead, and fails if anything differs.
set -euo pipefail
cd "$(dirname "$0")/.."
protos=Sources/ConnectivityProtocol/Protos
api=Sources/ConnectivityProtocol/Generated
standard=Sources/StandardServices/Generated
recording=Sources/ConndServer/Recording/Format
example=Examples/Sources/telemetry/Generated
golden=Tests/Fixtures/messages
output=.
if [ "${1:-}" = --check ]; then
    output=$(mktemp -d)
    trap 'rm -rf "$output"' EXIT
fi

dev/swift build --product protoc-gen-swift >&2
dev/swift build --product protoc-gen-grpc-swift-2 >&2
tools=$(dev/swift build --show-bin-path)

# empty DIRECTORY
empty() {
    rm -rf "${output:?}/$1"
    mkdir -p "$output/$1"
}
# messages TO PROTOS FILE...: messages and methods of connd.
messages() {
    empty "$1"
    protoc -I "$2" --plugin=protoc-gen-messages=dev/protoc-gen-messages \
        --messages_out="$output/$1" "${@:3}"
}
files() { (cd "$protos" && find "$1" -name '*.proto' | sort); }
messages "$api" "$protos" $(files connectivity)
messages "$standard" "$protos" $(files grpc)
mkdir -p "$output/$standard/Descriptors"
protoc -I "$protos" $(files connectivity) $(files grpc) --include_imports \
    --descriptor_set_out="$output/$standard/Descriptors/descriptors.binpb"
messages "$recording/Generated" "$recording/Protos" recording.proto
mkdir -p "$output/$golden"
"$golden/make" "$output/$standard/Descriptors/descriptors.binpb" "$protos" "$output/$golden"
empty "$example"
protoc -I Examples/Protos --plugin="$tools/protoc-gen-swift" --swift_out="$output/$example" \
    --swift_opt=FileNaming=FullPath telemetry/v1/telemetry.proto
protoc -I Examples/Protos --plugin=protoc-gen-grpc-swift="$tools/protoc-gen-grpc-swift-2" \
    --grpc-swift_out="$output/$example" --grpc-swift_opt=FileNaming=FullPath telemetry/v1/telemetry.proto

if [ "$output" != . ]; then
    for made in "$api" "$standard" "$recording/Generated" "$example"; do diff -r "$made" "$output/$made"; done
    diff -r --exclude=make "$golden" "$output/$golden"
fi
