// swift-tools-version:6.1
import PackageDescription

// What `make bench` runs; `run` says what it measures and how.
let package = Package(
  name: "benchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [.package(name: "connd", path: "../..")],
  targets: [
    .systemLibrary(name: "CMnl", pkgConfig: "libmnl", providers: [.apt(["libmnl-dev"])]),
    .executableTarget(name: "floor", dependencies: ["CMnl"]),
    .executableTarget(name: "latency", dependencies: ["CMnl"]),
    .executableTarget(
      name: "classify", dependencies: [.product(name: "Connectivity", package: "connd")],
      swiftSettings: [
        .swiftLanguageMode(.v6),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
      ]),
  ]
)
