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
}
