import TestKit
import TestTraits
import Testing

@Suite("Other languages", .timeLimit(.minutes(2)))
struct LanguageTests {
  @Test(
    "protoc generates code for other languages, in packages of our own",
    .needsAll("protoc, and its plugin for Go"))
  func generators() throws {
    let directory = try TemporaryDirectory()
    let protos = Checkout.path("Sources/ConnectivityProtocol/Protos")
    let languages = ["cpp", "csharp", "go", "java", "kotlin", "objc", "php", "python", "ruby"]
    for language in languages { try Command.run(["mkdir", "\(directory.path)/\(language)"]) }
    try Command.run(
      ["protoc", "--proto_path", protos]
        + languages.map { "--\($0)_out=\(directory.path)/\($0)" }
        + ["connectivity", "costs", "diagnostics"].map { "connectivity/v1/\($0).proto" })
    func files(_ language: String) throws -> [String] {
      try Command.run(["find", "\(directory.path)/\(language)", "-type", "f", "-printf", "%P\n"])
        .split(separator: "\n").map(String.init)
    }
    let go = try files("go")
    #expect(go.contains("connd.org/connectivity/v1/connectivity.pb.go") && go.count == 3)
    // One file for each class, not one class with everything.
    let java = try files("java")
    #expect(java.contains("org/connd/connectivity/v1/Transition.java") && java.count > 100)
    #expect(java.contains("org/connd/connectivity/v1/ConnectivityProto.java"))
    let csharp = try Command.run(["grep", "-h", "^namespace", "-r", "\(directory.path)/csharp"])
    #expect(Set(csharp.split(separator: "\n")) == ["namespace Connd.V1 {"])
    for language in languages { #expect(try !files(language).isEmpty, "\(language)") }
  }

  /// The commands of `docs/how-to/other-languages.md`.
  @Test(
    "gRPC's plugins in Debian generate clients",
    .needsAll("protobuf-compiler-grpc"),
    arguments: [
      ("cpp", "connectivity/v1/connectivity.grpc.pb.cc"),
      ("php", "Connectivity/V1/ConnectivityClient.php"),
      ("python", "connectivity/v1/connectivity_pb2_grpc.py"),
      ("ruby", "connectivity/v1/connectivity_services_pb.rb"),
    ])
  func plugins(_ language: String, _ file: String) throws {
    let directory = try TemporaryDirectory()
    try Command.run([
      "protoc", "--proto_path", Checkout.path("Sources/ConnectivityProtocol/Protos"),
      "--grpc_out=\(directory.path)",
      "--plugin=protoc-gen-grpc=/usr/bin/grpc_\(language)_plugin",
      "connectivity/v1/connectivity.proto",
    ])
    try Command.run(["test", "-s", "\(directory.path)/\(file)"])
  }

  @Test(
    "pip builds the client for Python, with connd's version, and installs it without a network",
    .needsAll("setuptools"))
  func wheel() throws {
    let directory = try TemporaryDirectory()
    let environment = try Programs.made(by: "Tests/Programs/python/setup")
    // pip writes into the directory that it builds.
    let sources = "\(directory.path)/sources"
    try Command.run(["cp", "-r", Checkout.path("clients/python"), sources])
    let pip = ["\(environment)/bin/pip", "--quiet", "--disable-pip-version-check"]
    try Command.run(
      pip + ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", directory.path, sources])
    let version = try Command.run(["cat", Checkout.path("VERSION")]).prefix { !$0.isNewline }
    let installed = "\(directory.path)/installed"
    try Command.run(
      pip + ["install", "--no-index", "--no-deps", "--target", installed]
        + ["\(directory.path)/connd-\(version)-py3-none-any.whl"])
    let file = try Command.run(
      ["python3", "-c", "import connd; connd.install(); print(connd.__file__)"],
      environment: ["PYTHONPATH": installed, "CONND_SOCKET": "\(directory.path)/none"])
    #expect(file == "\(installed)/connd.py\n")
  }
}
