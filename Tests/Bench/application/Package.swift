// swift-tools-version:6.1
import PackageDescription

let package = Package(
  name: "channels",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "connd", path: "../../..", traits: ["Client"]),
    .package(url: "https://github.com/grpc/grpc-swift-2", from: "2.4.3"),
    .package(url: "https://github.com/grpc/grpc-swift-nio-transport", from: "2.9.2"),
  ],
  targets: [
    .executableTarget(
      name: "channels",
      dependencies: [
        .product(name: "ConnectivityClient", package: "connd"),
        .product(name: "GRPCCore", package: "grpc-swift-2"),
        .product(name: "GRPCNIOTransportHTTP2Posix", package: "grpc-swift-nio-transport"),
      ],
      swiftSettings: [.swiftLanguageMode(.v6)])
  ]
)
