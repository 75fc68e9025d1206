// swift-tools-version:6.3
import PackageDescription

let swiftSettings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

/// The settings of targets that import FoundationEssentials (through SwiftProtobuf) or libsystemd.
/// Their headers include the C library's. clang may then ascribe the C library's structs to modules
/// that no source imports, and MemberImportVisibility rejects their members.
let settingsBesideC = Array(swiftSettings.dropLast())

/// The trait that adds the programs.
let programs = "Programs"
/// The trait that adds the library for gRPC and NIO.
let client = "Client"

// Without these traits, the package manager of an application does not fetch these dependencies.
let forClient = TargetDependencyCondition.when(traits: [client, programs])
let forPrograms = TargetDependencyCondition.when(traits: [programs])

let core: [Target.Dependency] = [.product(name: "GRPCCore", package: "grpc-swift-2")]
let grpc: [Target.Dependency] = [
  .product(name: "GRPCCore", package: "grpc-swift-2"),
  .product(
    name: "GRPCNIOTransportHTTP2Posix", package: "grpc-swift-nio-transport", condition: forClient),
]
let grpcProtobuf: [Target.Dependency] = [
  .product(name: "GRPCProtobuf", package: "grpc-swift-protobuf", condition: forClient),
  .product(name: "SwiftProtobuf", package: "swift-protobuf", condition: forClient),
]
func nio(_ names: String...) -> [Target.Dependency] {
  names.map { .product(name: $0, package: "swift-nio", condition: forClient) }
}
func nioHTTP2(_ names: String...) -> [Target.Dependency] {
  names.map { .product(name: $0, package: "swift-nio-http2", condition: forClient) }
}
/// Joins lists without the operator `+`, because the compiler would try its overloads for minutes.
func all(_ lists: [Target.Dependency]...) -> [Target.Dependency] { lists.flatMap { $0 } }

let lifecycle: Target.Dependency = .product(
  name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: forClient)
let signals: Target.Dependency = .product(
  name: "UnixSignals", package: "swift-service-lifecycle", condition: forClient)
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let arguments: Target.Dependency = .product(
  name: "ArgumentParser", package: "swift-argument-parser", condition: forPrograms)
let metrics: Target.Dependency = .product(
  name: "CoreMetrics", package: "swift-metrics", condition: forClient)

// The edge: C libraries, and the modules that wrap them.
let edge: [Target] = [
  .target(name: "CLinux"),
  .systemLibrary(name: "CMnl", pkgConfig: "libmnl", providers: [.apt(["libmnl-dev"])]),
  .systemLibrary(
    name: "CNghttp2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
  .systemLibrary(name: "CYaml", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
  .systemLibrary(
    name: "CSystemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),
  // Threads, errors, accounts, processes, sockets, files. The libraries for applications use it on
  // other systems, too.
  .target(
    name: "LinuxSupport",
    dependencies: [
      "Connectivity", .product(name: "DequeModule", package: "swift-collections"),
      .target(name: "CLinux", condition: .when(platforms: [.linux])),
    ],
    swiftSettings: swiftSettings),
  .target(
    name: "Netlink", dependencies: ["CLinux", "CMnl", "Connectivity", "LinuxSupport"],
    swiftSettings: swiftSettings),
  .target(
    name: "Systemd",
    dependencies: ["CLinux", "CSystemd", "Connectivity", "LinuxSupport", logging],
    swiftSettings: settingsBesideC),
]

// The checks of what must always hold.
let checks: [Target] = [.target(name: "Invariants", swiftSettings: swiftSettings)]

// The gRPC server and client on a Unix socket.
let transport: [Target] = [
  .target(
    name: "UnixTransport",
    dependencies: all(
      [
        "CLinux", "CNghttp2", "Invariants", "LinuxSupport",
        .product(name: "DequeModule", package: "swift-collections"),
      ], core),
    swiftSettings: swiftSettings)
]

// The pure middle.
let middle: [Target] = [
  .target(name: "Connectivity", swiftSettings: swiftSettings),
  .target(
    name: "ConnectivityRules", dependencies: ["Connectivity"], swiftSettings: swiftSettings),
  // The JSON that scripts rely on. connctl prints it, and connd does when it replays a recording.
  .target(
    name: "ConnectivityJSON", dependencies: ["Connectivity"], swiftSettings: swiftSettings),
]

// The protocol.
let wire: [Target] = [
  // Protobuf's encoding.
  .target(name: "ConnectivityProtobuf", dependencies: core, swiftSettings: swiftSettings),
  .target(
    name: "ConnectivityProtocol",
    dependencies: all(["Connectivity", "ConnectivityProtobuf"], core),
    exclude: ["Protos"], swiftSettings: swiftSettings),
  // The health and reflection services that gRPC defines. Clients need neither.
  .target(
    name: "StandardServices", dependencies: all(["ConnectivityProtobuf"], core),
    resources: [.embedInCode("Generated/Descriptors/descriptors.binpb")],
    swiftSettings: swiftSettings),
]

// The daemon.
let daemon: [Target] = [
  .target(
    name: "ConndServer",
    dependencies: all(
      [
        "CLinux", "CYaml", "Netlink", "Connectivity", "ConnectivityJSON", "ConnectivityRules",
        "ConnectivityProtocol", "ConnectivityProtobuf", "Invariants", "LinuxSupport",
        "StandardServices",
        "Systemd", "UnixTransport", logging, arguments,
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "OrderedCollections", package: "swift-collections"),
        metrics,
      ], core),
    exclude: ["Recording/Format/Protos"], swiftSettings: settingsBesideC),
  .executableTarget(
    name: "connd", dependencies: ["ConndServer", arguments], swiftSettings: swiftSettings),
]

// The monitors and guards of all clients. They follow connd across its restarts.
let monitor: [Target] = [
  .target(
    name: "ConnectivityMonitor",
    dependencies: all(
      [
        "Connectivity", "ConnectivityProtobuf", "ConnectivityProtocol", "LinuxSupport", logging,
        .target(name: "UnixTransport", condition: .when(platforms: [.linux])),
      ], core),
    swiftSettings: swiftSettings)
]

// The service for Multipath TCP, a client of connd.
let multipath: [Target] = [
  .target(
    name: "ConndMultipath",
    dependencies: [
      "CLinux", "Connectivity", "ConnectivityMonitor", "LinuxSupport", "Netlink", "Systemd",
      "UnixTransport", arguments, logging,
    ],
    swiftSettings: settingsBesideC),
  .executableTarget(
    name: "connd-multipath", dependencies: ["ConndMultipath", arguments],
    swiftSettings: swiftSettings),
]

// The clients.
let clients: [Target] = [
  .target(
    name: "ConnectivityClient",
    dependencies: all(
      [
        "Connectivity", "ConnectivityProtocol", "ConnectivityMonitor", "Invariants", "LinuxSupport",
        lifecycle,
        logging, metrics,
        .product(name: "DequeModule", package: "swift-collections"),
      ], nio("NIOCore", "NIOPosix"), nioHTTP2("NIOHTTP2", "NIOHPACK"), grpc, grpcProtobuf),
    swiftSettings: settingsBesideC),
  .target(
    name: "ConnectivityTestKit",
    dependencies: all(
      [
        "Connectivity", "ConnectivityRules", "ConnectivityProtobuf", "ConnectivityProtocol",
        "ConnectivityClient", "ConnectivityMonitor",
      ], nio("NIOCore", "NIOPosix"), grpc),
    swiftSettings: swiftSettings),
  .target(
    name: "ConnctlCommands",
    dependencies: all(
      [
        "CLinux", "Connectivity", "ConnectivityJSON", "ConnectivityProtocol",
        "ConnectivityMonitor", "ConnectivityProtobuf", "LinuxSupport", "Netlink", "UnixTransport",
        arguments,
      ], core),
    swiftSettings: swiftSettings),
  .executableTarget(
    name: "connctl", dependencies: ["ConnctlCommands"], swiftSettings: swiftSettings),
]

// Tests: one target for each module, and the scenarios with real processes.
let tests: [Target] = [
  .target(
    name: "TestKit", dependencies: ["CLinux"], path: "Tests/Support/TestKit",
    swiftSettings: swiftSettings),
  .target(
    name: "TestTraits", path: "Tests/Support/TestTraits", swiftSettings: swiftSettings),
  // The simulation looks up thousands of routes, so this is optimised in debug builds, too.
  .target(
    name: "ModelRoutes", dependencies: ["Connectivity"], path: "Tests/Support/ModelRoutes",
    swiftSettings: swiftSettings + [.unsafeFlags(["-O"])]),
  .testTarget(
    name: "LinuxSupportTests",
    dependencies: ["LinuxSupport", "Connectivity", "CLinux", "TestKit"],
    path: "Tests/Unit/LinuxSupport", swiftSettings: swiftSettings),
  .testTarget(
    name: "InvariantsTests", dependencies: ["Invariants"], path: "Tests/Unit/Invariants",
    swiftSettings: swiftSettings),
  .testTarget(
    name: "NetlinkTests",
    dependencies: ["Netlink", "Connectivity", "CLinux", "TestKit", "TestTraits"],
    path: "Tests/Unit/Netlink", swiftSettings: swiftSettings),
  .testTarget(
    name: "ConnectivityTests",
    dependencies: ["Connectivity", "ConnectivityRules", "TestKit", "TestTraits"],
    path: "Tests/Unit/Connectivity", swiftSettings: swiftSettings),
  .executableTarget(
    name: "instructions", dependencies: ["ConnectivityRules", "Connectivity"],
    path: "Tests/Programs/Instructions", swiftSettings: swiftSettings),
  .testTarget(
    name: "ConnectivityProtocolTests",
    dependencies: all(
      [
        "ConnectivityProtocol", "ConnectivityMonitor", "Connectivity", "ConnectivityProtobuf",
        "StandardServices", "TestKit", "TestTraits",
      ], core),
    path: "Tests/Unit/ConnectivityProtocol", swiftSettings: swiftSettings),
  .testTarget(
    name: "SystemdTests", dependencies: ["Systemd", "TestKit", logging],
    path: "Tests/Unit/Systemd", swiftSettings: settingsBesideC),
  .executableTarget(
    name: "passedsockets", dependencies: ["Systemd"], path: "Tests/Programs/PassedSockets",
    swiftSettings: swiftSettings),
  .testTarget(
    name: "UnixTransportTests",
    dependencies: all(
      ["CLinux", "CNghttp2", "Invariants", "LinuxSupport", "UnixTransport", "TestKit"], grpc,
      nio("NIOPosix")),
    path: "Tests/Unit/UnixTransport", swiftSettings: swiftSettings),
  .testTarget(
    name: "ConndMultipathTests",
    dependencies: ["ConndMultipath", "Connectivity", "Netlink", "TestKit"],
    path: "Tests/Unit/ConndMultipath", swiftSettings: swiftSettings),
  .testTarget(
    name: "ConndServerTests",
    dependencies: all(
      [
        "CLinux", "ConndServer", "Connectivity", "ConnectivityRules", "ConnectivityProtobuf",
        "ConnectivityProtocol", "Invariants", "LinuxSupport", "ModelRoutes", "Netlink",
        "StandardServices", "TestKit", "TestTraits", "UnixTransport", logging,
      ], core),
    path: "Tests/Unit/ConndServer", swiftSettings: swiftSettings),
  .testTarget(
    name: "SimulationTests",
    dependencies: [
      "CLinux", "ConndServer", "Connectivity", "ConnectivityJSON", "ConnectivityRules",
      "ConnectivityProtocol", "LinuxSupport", "ModelRoutes", "Netlink", "TestKit", "TestTraits",
      logging,
    ],
    path: "Tests/Oracles/simulation",
    // The simulation runs thousands of steps, so its model is optimised in debug builds, too.
    exclude: ["run"], swiftSettings: swiftSettings + [.unsafeFlags(["-O"])]),
  .testTarget(
    name: "ConnectivityClientTests",
    dependencies: all(
      [
        "ConnectivityClient", "ConnectivityMonitor", "ConnectivityTestKit", "Connectivity",
        "ConnectivityRules", "ConnectivityProtobuf", "ConnectivityProtocol", "TestKit", lifecycle,
        logging, metrics, signals,
      ], nio("NIOCore", "NIOPosix", "NIOEmbedded"),
      nioHTTP2("NIOHTTP2", "NIOHPACK"), grpc, grpcProtobuf),
    path: "Tests/Unit/ConnectivityClient", swiftSettings: swiftSettings),
  .testTarget(
    name: "ConnctlCommandsTests",
    dependencies: all(
      [
        "ConnctlCommands", "ConnectivityJSON", "ConnectivityMonitor", "Connectivity",
        "ConnectivityProtobuf", "ConnectivityProtocol", "LinuxSupport", "UnixTransport", "TestKit",
        "TestTraits", arguments,
      ], core),
    path: "Tests/Unit/ConnctlCommands", swiftSettings: swiftSettings),
  .executableTarget(
    name: "callprobe",
    dependencies: all(
      ["ConnectivityClient", "Connectivity", "TestKit", arguments, logging],
      nio("NIOCore", "NIOPosix", "NIOHTTP1", "NIOWebSocket"), grpc, grpcProtobuf),
    path: "Tests/Programs/CallProbe", swiftSettings: swiftSettings),
  .testTarget(
    name: "ScenarioTests", dependencies: ["TestKit", "TestTraits", "Connectivity"],
    path: "Tests/Scenarios", swiftSettings: swiftSettings),
]

/// The names of the test targets to build, or `nil` for all. A sanitized build limits them.
let chosenTests = Context.environment["CONND_TESTS"]?.split(separator: " ").map(String.init)
func isChosen(_ target: Target) -> Bool {
  target.type != .test || chosenTests?.contains(target.name) ?? true
}

let package = Package(
  name: "connd",
  // As gRPC Swift 2. connd runs only on Linux, so on other systems monitors report `unknown`.
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    .library(name: "Connectivity", targets: ["Connectivity"]),
    .library(name: "ConnectivityMonitor", targets: ["ConnectivityMonitor"]),
    .library(name: "ConnectivityClient", targets: ["ConnectivityClient"]),
    .library(name: "ConnectivityTestKit", targets: ["ConnectivityTestKit"]),
    .executable(name: "connd", targets: ["connd"]),
    .executable(name: "connctl", targets: ["connctl"]),
    .executable(name: "connd-multipath", targets: ["connd-multipath"]),
  ],
  traits: [
    .trait(
      name: programs,
      description: "Adds everything: connd, connctl, the libraries. Applications do not need it."),
    .trait(
      name: client,
      description: "Adds ConnectivityClient: gRPC channels, and a handler for SwiftNIO."),
    // dev/swift enables only the first, because SwiftPM passes several to the compiler in a random
    // order, and then builds everything again.
  ],
  dependencies: [
    .package(url: "https://github.com/grpc/grpc-swift-2", from: "2.4.3"),
    // Some code relies on behaviour that the package does not promise; `UpstreamTests` check it.
    .package(url: "https://github.com/grpc/grpc-swift-nio-transport", from: "2.9.2"),
    .package(url: "https://github.com/grpc/grpc-swift-protobuf", from: "2.4.1"),
    .package(url: "https://github.com/apple/swift-protobuf", from: "1.39.0", traits: []),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
  ],
  targets: [
    edge, checks, transport, middle, wire, daemon, monitor, multipath, clients,
    tests.filter(isChosen),
  ]
  .flatMap { $0 }
)
