#!/bin/bash
# Regenerates Sources/ConnectivityProtocol/Generated from the .proto files, with the generators of the
# packages that the code is built against. With --check: compares instead, and fails if anything differs.
set -euo pipefail
cd "$(dirname "$0")/.."
protos=Sources/ConnectivityProtocol/Protos
generated=Sources/ConnectivityProtocol/Generated
output=$generated
if [ "${1:-}" = --check ]; then
    output=$(mktemp -d)
    trap 'rm -rf "$output"' EXIT
fi

swift build --product protoc-gen-swift >&2
swift build --product protoc-gen-grpc-swift-2 >&2
tools=$(swift build --show-bin-path)

rm -rf "${output:?}"/*
mkdir -p "$output"
files=$(cd "$protos" && find . -name '*.proto' | sort | sed 's#^\./##')
protoc -I "$protos" $files \
    --plugin="$tools/protoc-gen-swift" --swift_out="$output" \
    --swift_opt=Visibility=Public,FileNaming=FullPath,UseAccessLevelOnImports=true \
    --plugin=protoc-gen-grpc-swift="$tools/protoc-gen-grpc-swift-2" --grpc-swift_out="$output" \
    --grpc-swift_opt=Visibility=Public,FileNaming=FullPath,UseAccessLevelOnImports=true
# The generator of grpc-swift-protobuf 2.4 does not escape a method whose name is a keyword of Swift.
sed -i 's/func guard\b/func `guard`/' "$output"/connectivity/v1/connectivity.grpc.swift
mkdir -p "$output/Descriptors"
protoc -I "$protos" $files --include_imports --descriptor_set_out="$output/Descriptors/descriptors.binpb"

[ "$output" = "$generated" ] || diff -r "$generated" "$output"
