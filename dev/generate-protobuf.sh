#!/bin/bash
# Regenerates Sources/ConnectivityProtocol/Generated and the example's code from the .proto files, with the generators
# of the packages that the code is built against. With --check: compares instead, and fails if anything differs.
set -euo pipefail
cd "$(dirname "$0")/.."
protos=Sources/ConnectivityProtocol/Protos
generated=Sources/ConnectivityProtocol/Generated
example=Examples/Sources/telemetry/Generated
output=$generated
example_output=$example
if [ "${1:-}" = --check ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    output=$work/protocol
    example_output=$work/example
fi

swift build --product protoc-gen-swift >&2
swift build --product protoc-gen-grpc-swift-2 >&2
tools=$(swift build --show-bin-path)

rm -rf "${output:?}"/* "${example_output:?}"/*
mkdir -p "$output" "$example_output"
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

protoc -I Examples/Protos telemetry/v1/telemetry.proto \
    --plugin="$tools/protoc-gen-swift" --swift_out="$example_output" \
    --swift_opt=FileNaming=FullPath \
    --plugin=protoc-gen-grpc-swift="$tools/protoc-gen-grpc-swift-2" --grpc-swift_out="$example_output" \
    --grpc-swift_opt=FileNaming=FullPath

[ "$output" = "$generated" ] || { diff -r "$generated" "$output" && diff -r "$example" "$example_output"; }
