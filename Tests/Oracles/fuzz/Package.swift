// swift-tools-version:6.1
import PackageDescription

let swiftSettings: [SwiftSetting] = [
  .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
]

/// libFuzzer provides the main function.
let fuzzerSettings: [SwiftSetting] = swiftSettings + [.unsafeFlags(["-parse-as-library"])]

/// A target of the product. Its files are here through the link `connd`, because
/// the fuzzed code is internal and not in any product of that package.
func ours(
  _ name: String, exclude: [String] = [], resources: [Resource] = [],
  _ dependencies: Target.Dependency...
) -> Target {
  .target(
    name: name, dependencies: dependencies, path: "connd/\(name)", exclude: exclude,
    resources: resources, swiftSettings: swiftSettings)
}

let arguments: Target.Dependency = .product(
  name: "ArgumentParser", package: "swift-argument-parser")
let deque: Target.Dependency = .product(name: "DequeModule", package: "swift-collections")
let grpc: Target.Dependency = .product(name: "GRPCCore", package: "grpc-swift-2")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let ordered: Target.Dependency = .product(
  name: "OrderedCollections", package: "swift-collections")

let package = Package(
  name: "fuzz",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/grpc/grpc-swift-2", from: "2.4.3"),
  ],
  targets: [
    ours("CLinux"),
    ours("Invariants"),
    .systemLibrary(name: "CMnl", path: "connd/CMnl", pkgConfig: "libmnl"),
    .systemLibrary(name: "CNghttp2", path: "connd/CNghttp2", pkgConfig: "libnghttp2"),
    .systemLibrary(name: "CSystemd", path: "connd/CSystemd", pkgConfig: "libsystemd"),
    .systemLibrary(name: "CYaml", path: "connd/CYaml", pkgConfig: "yaml-0.1"),
    ours("Connectivity"),
    ours("ConnectivityRules", "Connectivity"),
    ours("ConnectivityJSON", "Connectivity"),
    ours("ConnectivityProtobuf", grpc),
    ours("ConnectivityProtocol", exclude: ["Protos"], "Connectivity", "ConnectivityProtobuf", grpc),
    ours(
      "StandardServices",
      resources: [.embedInCode("Generated/Descriptors/descriptors.binpb")],
      "ConnectivityProtobuf", grpc),
    ours("LinuxSupport", "CLinux", "Connectivity", deque),
    ours("Netlink", "CLinux", "CMnl", "Connectivity", "LinuxSupport"),
    ours("Systemd", "CLinux", "CSystemd", "LinuxSupport", logging),
    ours("UnixTransport", "CLinux", "CNghttp2", "Invariants", "LinuxSupport", deque, grpc),
    ours(
      "ConndServer", exclude: ["Recording/Format/Protos"], "CLinux", "Netlink", "Connectivity",
      "ConnectivityJSON", "Invariants",
      "ConnectivityRules", "ConnectivityProtocol", "ConnectivityProtobuf", "LinuxSupport",
      "StandardServices", "Systemd", "UnixTransport", "CYaml", arguments, deque, grpc, logging,
      ordered,
      .product(name: "CoreMetrics", package: "swift-metrics")),
    ours(
      "ConnectivityMonitor", "Connectivity", "ConnectivityProtobuf", "ConnectivityProtocol",
      "LinuxSupport",
      "UnixTransport", grpc),
    ours(
      "ConnctlCommands", "CLinux", "Connectivity", "ConnectivityJSON", "ConnectivityProtocol",
      "ConnectivityMonitor", "ConnectivityProtobuf", "LinuxSupport", "UnixTransport", arguments,
      grpc),
    .target(name: "Expectation", swiftSettings: swiftSettings),
    .executableTarget(
      name: "netlink", dependencies: ["Netlink", "Connectivity", "Expectation"],
      swiftSettings: fuzzerSettings),
    .executableTarget(
      name: "settings",
      dependencies: ["ConndServer", "ConnctlCommands", "Connectivity", "Expectation"],
      swiftSettings: fuzzerSettings),
    .executableTarget(
      name: "bus", dependencies: ["ConndServer", "Connectivity", "Expectation"],
      swiftSettings: fuzzerSettings),
    .executableTarget(
      name: "choices", dependencies: ["ConndServer", "ConnectivityRules", "Expectation"],
      swiftSettings: fuzzerSettings),
    .executableTarget(
      name: "frames",
      dependencies: ["ConndServer", "LinuxSupport", "Systemd", "Expectation", logging],
      swiftSettings: fuzzerSettings),
    .executableTarget(
      name: "messages",
      dependencies: [
        "ConndServer", "Connectivity", "ConnectivityProtocol", "ConnectivityRules", "Expectation",
        "ConnectivityProtobuf", logging,
      ],
      swiftSettings: fuzzerSettings),
  ]
)
