import TestKit
import TestTraits
import Testing

/// `dev/check-protocol`, with a copy of the .proto files in a repository of its own.
@Suite("The check of the .proto files", .timeLimit(.minutes(2)))
struct ProtocolCheckTests {
  private static let protos = "Sources/ConnectivityProtocol/Protos"
  private static let main = "connectivity.proto"
  private static let costs = "costs.proto"
  private static let diagnostics = "diagnostics.proto"

  private let directory: TemporaryDirectory

  init() throws {
    try TestSize.needsAll("git and protoc")
    self.directory = try TemporaryDirectory()
    let copy = "\(self.directory.path)/\(Self.protos)"
    try Command.run(["mkdir", "-p", copy])
    try Command.run(["cp", "-r", Checkout.path("\(Self.protos)/connectivity"), copy])
    try self.git("init", "--quiet")
    try self.git("add", ".")
    try self.git("commit", "--quiet", "--message", "Add the API")
  }

  private func git(_ arguments: String...) throws {
    let author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    try Command.run(["git", "-C", self.directory.path] + author + arguments)
  }

  private func check() throws -> Command.Outcome {
    try Command.outcome(of: [Checkout.path("dev/check-protocol"), self.directory.path])
  }

  /// Replaces the only occurrence of a text in a file.
  private func replace(_ old: String, with new: String, in file: String) throws {
    let path = "\(self.directory.path)/\(Self.protos)/connectivity/v1/\(file)"
    let text = try Command.run(["cat", path])
    let parts = text.split(separator: old, omittingEmptySubsequences: false)
    try #require(parts.count == 2, "\(old): \(parts.count - 1) occurrences")
    try self.directory.write(
      parts.joined(separator: new), to: "\(Self.protos)/connectivity/v1/\(file)")
  }

  @Test("without a tag, it says so and succeeds")
  func noTag() throws {
    let outcome = try self.check()
    #expect(outcome.status == 0, "\(outcome.standardError)")
    #expect(outcome.output == "3 .proto files: no tag to compare with\n")
  }

  @Test("the tag has no API → it succeeds")
  func tagWithoutProtocol() throws {
    try self.git("rm", "-r", "--quiet", "--cached", ".")
    try self.git("commit", "--quiet", "--allow-empty", "--message", "Remove it")
    try self.git("tag", "v0.0.1")
    #expect(try self.check().status == 0)
  }

  /// A change, and what the check says about it. `nil` if it breaks no client.
  struct Change: Sendable, CustomTestStringConvertible {
    var file: String
    var old: String
    var new: String
    var fault: String?

    var testDescription: String { self.fault ?? self.new }
  }

  private static let changes: [Change] = [
    // Fields
    .init(
      file: Self.main, old: "  Category previous = 2;", new: "  Category before = 2;",
      fault: "Transition.previous = 2: the name was previous, and is before"),
    .init(
      file: Self.main, old: "  Category previous = 2;", new: "  Category previous = 12;",
      fault: "Transition.previous = 2: is removed, and its number or name is not reserved"),
    .init(
      file: Self.main, old: "  Category previous = 2;",
      new: "  reserved 2;\n  reserved \"previous\";"),
    .init(
      file: Self.main, old: "  uint64 network_namespace = 13;",
      new: "  uint32 network_namespace = 13;",
      fault: "Status.network_namespace = 13: the type was TYPE_UINT64, and is TYPE_UINT32"),
    .init(
      file: Self.main, old: "  Category current = 3;", new: "  ThreeWayCategory current = 3;",
      fault: "Transition.current = 3: the type name was"),
    .init(
      file: Self.main, old: "  repeated ChainLink chain = 4;", new: "  ChainLink chain = 4;",
      fault: "Path.chain = 4: the label was LABEL_REPEATED, and is LABEL_OPTIONAL"),
    .init(
      file: Self.main, old: "  uint64 network_namespace = 13;",
      new: "  optional uint64 network_namespace = 13;",
      fault: "Status.network_namespace = 13: the presence was False, and is True"),
    .init(
      file: Self.main, old: "[json_name = \"isWWAN\"]", new: "",
      fault: "Flags.is_wwan = 3: the JSON name was isWWAN, and is isWwan"),
    .init(
      file: Self.costs, old: "    string link = 1;", new: "",
      fault: "SetCostRequest.link = 1: is removed"),
    .init(
      file: Self.main, old: "  // The flow that the message is about.",
      new: "  string note = 99;\n  // The flow that the message is about."),
    .init(
      file: Self.main, old: "  optional AddressFamily family = 2;",
      new: "  optional AddressFamily family = 2;\n  optional uint32 port = 6;",
      fault: "Scope.port = 6: is new, and older clients would end more connections"),
    // Enums
    .init(
      file: Self.main, old: "  CATEGORY_OTHER = 5;", new: "  CATEGORY_ELSE = 5;",
      fault: "Category.CATEGORY_OTHER = 5: is named CATEGORY_ELSE now"),
    .init(
      file: Self.main, old: "  CATEGORY_OTHER = 5;", new: "  CATEGORY_OTHER = 7;",
      fault: "Category.CATEGORY_OTHER = 5: is removed, and its number or name is not reserved"),
    .init(
      file: Self.main, old: "  CATEGORY_OTHER = 5;",
      new: "  reserved 5;\n  reserved \"CATEGORY_OTHER\";"),
    .init(
      file: Self.main, old: "  CATEGORY_OTHER = 5;",
      new: "  CATEGORY_OTHER = 5;\n  CATEGORY_SATELLITE = 7;"),
    .init(
      file: Self.main, old: "// The kind of network that traffic uses. Treat an unknown value as",
      new: "// The kind of network that traffic uses, unless it is",
      fault: "Category: the comment does not say how to treat an unknown value"),
    // Messages, services and files
    .init(
      file: Self.diagnostics,
      old: "  rpc ListClients(ListClientsRequest) returns (ListClientsResponse);", new: "",
      fault: "Diagnostics.ListClients: is removed"),
    .init(
      file: Self.diagnostics,
      old: "  rpc ListClients(ListClientsRequest) returns (ListClientsResponse);",
      new: "  rpc ListClients(ListClientsRequest) returns (stream ListClientsResponse);",
      fault: "Diagnostics.ListClients: the server_streaming was False, and is True"),
    .init(
      file: Self.main, old: "option go_package = \"connd.org/connectivity/v1;connectivityv1\";",
      new: "", fault: "connectivity/v1/connectivity.proto: no option go_package"),
    .init(
      file: Self.costs, old: "org.connd.connectivity.v1", new: "org.connd",
      fault: "connectivity/v1/costs.proto: the option java_package was"),
    // Style
    .init(
      file: Self.main, old: "  // The flow that the message is about.",
      new: "  string from = 99;\n  // The flow that the message is about.",
      fault: "GuardResponse.from: is a keyword in a language"),
    .init(
      file: Self.costs, old: "timestamp.proto\";",
      new: "timestamp.proto\";\nmessage Odd { google.protobuf.Timestamp end = 1; }",
      fault: "Odd.end: the name of a Timestamp ends with _time (AIP-142)"),
    .init(
      file: Self.costs, old: "timestamp.proto\";",
      new: "timestamp.proto\";\nmessage Odd { google.protobuf.Duration seconds = 1; }",
      fault: "Odd.seconds: the name of a Duration ends with duration or _offset (AIP-142)"),
  ]

  @Test(
    "a change since the tag → what breaks clients is found, and nothing else", arguments: changes)
  func change(_ change: Change) throws {
    try self.git("tag", "v0.0.1")
    try self.replace(change.old, with: change.new, in: change.file)
    let outcome = try self.check()
    guard let fault = change.fault else {
      #expect(outcome.status == 0, "\(outcome.standardError)")
      #expect(outcome.output == "3 .proto files: nothing breaks clients of v0.0.1\n")
      return
    }
    #expect(outcome.status == 1)
    let faults = outcome.standardError.split(separator: "\n")
    #expect(faults.contains { $0.hasPrefix(fault) }, "\(outcome.standardError)")
  }

  @Test("a release breaks clients of the one before → the check of its commit fails")
  func released() throws {
    try self.git("tag", "v0.0.1")
    try self.replace("  CATEGORY_OTHER = 5;", with: "  CATEGORY_ELSE = 5;", in: Self.main)
    try self.git("commit", "--quiet", "--all", "--message", "Rename a value")
    try self.git("tag", "v0.0.2")
    #expect(
      try self.check().standardError == "Category.CATEGORY_OTHER = 5: is named CATEGORY_ELSE now\n")
  }

  @Test("a message moves to another file, or a file is removed → clients that import it break")
  func moved() throws {
    try self.git("tag", "v0.0.1")
    let subject = "message WatchingClient {}\n"
    try self.replace(subject, with: "", in: Self.diagnostics)
    try self.replace("message OffLink {}\n", with: "message OffLink {}\n\(subject)", in: Self.main)
    let outcome = try self.check()
    #expect(outcome.status == 1)
    #expect(
      outcome.standardError.contains(
        "WatchingClient: is removed from connectivity/v1/diagnostics.proto"))
    try Command.run([
      "rm", "\(self.directory.path)/\(Self.protos)/connectivity/v1/\(Self.costs)",
    ])
    #expect(try self.check().standardError.contains("connectivity/v1/costs.proto: is removed"))
  }
}

/// `dev/check-api release`, with a copy of the fixtures in a repository of its own.
@Suite("The check of the public API", .timeLimit(.minutes(2)))
struct ReleasedAPITests {
  private static let fixture = "Tests/Fixtures/api/Connectivity.txt"

  private let directory: TemporaryDirectory

  init() throws {
    try TestSize.needsAll("git")
    self.directory = try TemporaryDirectory()
    try Command.run(["mkdir", "-p", "\(self.directory.path)/dev"])
    try Command.run(["cp", Checkout.path("dev/check-api"), "\(self.directory.path)/dev"])
    try Command.run(["mkdir", "-p", "\(self.directory.path)/Tests/Fixtures/api"])
    try self.directory.write("0.1.0\n", to: "VERSION")
    try self.directory.write("Path: struct Path\nPath.id: var id: Int\n", to: Self.fixture)
    let author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in [["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Add the API"]] {
      try Command.run(["git", "-C", self.directory.path] + author + words)
    }
  }

  private func check() throws -> Command.Outcome {
    try Command.outcome(of: ["\(self.directory.path)/dev/check-api", "release"])
  }

  @Test("declarations are added → it succeeds; one is removed or changed → only in a new series")
  func removed() throws {
    #expect(try self.check().status == 0)
    try Command.run(["git", "-C", self.directory.path, "tag", "v0.1.0"])
    try self.directory.write(
      "Path: struct Path\nPath.id: var id: Int\nPath.name: var name: String\n", to: Self.fixture)
    #expect(try self.check().status == 0)
    try self.directory.write("0.1.1\n", to: "VERSION")
    for text in ["Path: struct Path\n", "Path: struct Path\nPath.id: var id: UInt\n"] {
      try self.directory.write(text, to: Self.fixture)
      let outcome = try self.check()
      #expect(outcome.status == 1)
      #expect(outcome.standardError.hasSuffix("Connectivity: Path.id: var id: Int\n"))
    }
    try self.directory.write("0.2.0\n", to: "VERSION")
    #expect(try self.check().status == 0)
  }
}
