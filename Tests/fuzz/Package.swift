// swift-tools-version:6.1
import PackageDescription

let swiftSettings: [SwiftSetting] = [.enableUpcomingFeature("InternalImportsByDefault")]

/// libFuzzer brings the main function.
let fuzzerSettings: [SwiftSetting] = swiftSettings + [.unsafeFlags(["-parse-as-library"])]

/// A target of the product's, or some of its files: those that need nothing of gRPC. They are here by the link `connd`:
/// what is fuzzed is internal, and no product of that package offers it.
func ours(_ name: String, sources: [String]? = nil, _ dependencies: Target.Dependency...) -> Target
{
  .target(
    name: name, dependencies: dependencies, path: "connd/\(name)", sources: sources,
    swiftSettings: swiftSettings)
}

let package = Package(
  name: "fuzz",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
  ],
  targets: [
    ours("CLinux"),
    .systemLibrary(name: "CMnl", path: "connd/CMnl", pkgConfig: "libmnl"),
    ours("Connectivity"),
    ours("ConnectivityRules", "Connectivity"),
    ours("UnixTransport", sources: ["Reactor/SystemError.swift"]),
    ours("Netlink", "CLinux", "CMnl", "Connectivity"),
    ours(
      "ConndServer", sources: ["Configuration"], "Connectivity", "ConnectivityRules",
      "UnixTransport", .product(name: "Yams", package: "Yams")),
    ours(
      "ConnctlCommands", sources: ["Condition.swift", "Resolver.swift", "Timeout.swift"],
      "Connectivity", .product(name: "ArgumentParser", package: "swift-argument-parser")),
    .target(name: "Expectation", swiftSettings: swiftSettings),
    .executableTarget(
      name: "netlink", dependencies: ["Netlink", "Connectivity", "Expectation"],
      swiftSettings: fuzzerSettings),
    .executableTarget(
      name: "settings",
      dependencies: ["ConndServer", "ConnctlCommands", "Connectivity", "Expectation"],
      swiftSettings: fuzzerSettings),
  ]
)
