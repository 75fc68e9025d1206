#!/bin/bash
# generate-protobuf.sh [--check]: generates the code of the .proto files: connd's API, gRPC's
# standard services, and the example. Uses the generators of the packages that the code is built
# against. With --check, compares instead, and fails if anything differs.
set -euo pipefail
cd "$(dirname "$0")/.."
protos=Sources/ConnectivityProtocol/Protos
api=Sources/ConnectivityProtocol/Generated
standard=Sources/StandardServices/Generated
example=Examples/Sources/telemetry/Generated
output=.
if [ "${1:-}" = --check ]; then
    output=$(mktemp -d)
    trap 'rm -rf "$output"' EXIT
fi

swift build --product protoc-gen-swift >&2
swift build --product protoc-gen-grpc-swift-2 >&2
tools=$(swift build --show-bin-path)

# generate TO PROTOS OPTIONS FILE...
generate() {
    local to=$output/$1 from=$2 options=$3
    shift 3
    rm -rf "${to:?}"
    mkdir -p "$to"
    protoc -I "$from" "$@" \
        --plugin="$tools/protoc-gen-swift" --swift_out="$to" --swift_opt="$options" \
        --plugin=protoc-gen-grpc-swift="$tools/protoc-gen-grpc-swift-2" --grpc-swift_out="$to" \
        --grpc-swift_opt="$options"
}
public=Visibility=Public,FileNaming=FullPath,UseAccessLevelOnImports=true
files() { (cd "$protos" && find "$1" -name '*.proto' | sort); }
generate "$api" "$protos" "$public" $(files connectivity)
# grpc-swift-protobuf 2.4 does not escape a method whose name is a Swift keyword.
sed -i 's/func guard\b/func `guard`/' "$output/$api"/connectivity/v1/connectivity.grpc.swift
generate "$standard" "$protos" "$public" $(files grpc)
mkdir -p "$output/$standard/Descriptors"
protoc -I "$protos" $(files connectivity) $(files grpc) --include_imports \
    --descriptor_set_out="$output/$standard/Descriptors/descriptors.binpb"
generate "$example" Examples/Protos FileNaming=FullPath telemetry/v1/telemetry.proto

if [ "$output" != . ]; then
    for made in "$api" "$standard" "$example"; do diff -r "$made" "$output/$made"; done
fi
