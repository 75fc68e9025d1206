// swift-tools-version:6.1
import PackageDescription

let package = Package(
  name: "instructions",
  dependencies: [.package(name: "connd", path: "../../..")],
  targets: [
    .executableTarget(
      name: "instructions", dependencies: [.product(name: "Connectivity", package: "connd")])
  ]
)
