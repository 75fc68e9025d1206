import TestKit
import TestTraits
import Testing

/// The programs of `Examples/plain`, which use neither gRPC nor generated code.
@Suite("Plain clients", .needsNamespaces, .blocking)
struct PlainClientTests {
  enum Program: String, CaseIterable {
    case java
    case rust = "rs"

    private var file: String { Checkout.path("Examples/plain/guard.\(self.rawValue)") }

    func source() throws -> String { try Command.run(["cat", self.file]) }

    func start(
      _ arguments: [String], in namespace: NetworkNamespace, connd: String
    ) throws -> RunningCommand {
      let environment = ["CONND_SOCKET": connd]
      switch self {
      case .java:
        try Self.needs("java")
        return try namespace.spawn(["java", self.file] + arguments, environment: environment)
      case .rust:
        try Self.needs("rustc")
        let program = try Self.compiledRust.get()
        return try namespace.spawn([program] + arguments, environment: environment)
      }
    }

    /// The compiled program in Rust.
    private static let compiledRust: Result<String, any Error> = Result {
      let program = "\(buildDirectory)/plain-guard"
      let source = Program.rust.file
      try Command.run(["rustc", "--edition=2021", "-o", program, source], within: .seconds(60))
      return program
    }

    /// Skips the test unless a program is installed, which the Makefile leaves to the user because
    /// it is large.
    private static func needs(_ program: String) throws {
      try TestSize.needsAll(program)
      guard (try? Command.run(["sh", "-c", "command -v \(program)"])) != nil else {
        try Test.cancel("\(program) is not installed")
      }
    }
  }

  /// Java and Rust have no HTTP/2 in their standard libraries.
  @Test("the programs are as short as the how-to says", arguments: Program.allCases)
  func length(_ program: Program) throws {
    #expect(
      try program.source().split(separator: "\n", omittingEmptySubsequences: false).count <= 111)
  }

  /// Has a program guard its connection, and ends the connection's link afterwards.
  ///
  /// - Parameter body: receives the laboratory and the program, which guards its connection.
  private func guarding(
    _ program: Program, _ body: (Laboratory, RunningCommand) throws -> Void = { _, _ in }
  ) throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.startConnd()
    let server = try EchoServer(lab)
    let client = try program.start(
      ["192.0.2.1", "\(EchoServer.port)"], in: lab.namespace, connd: lab.socket)
    #expect(try client.nextLine() == "guarded")
    try body(lab, client)
    try lab.namespace.ip("link set eth0 down")
    // A connection that has just been made may first be in doubt.
    try client.line { $0 == "destroyed" }
    try client.expectSuccess()
    try server.end()
  }

  @Test(
    "I1 a link goes down → a program without gRPC hears that its connection is dead, and closes it",
    arguments: Program.allCases)
  func guarded(_ program: Program) throws { try self.guarding(program) }

  @Test(
    "E4 connd asks about an idle connection → a program without gRPC asks the peer, and sets the options back",
    arguments: Program.allCases)
  func asked(_ program: Program) throws {
    try self.guarding(program) { lab, client in
      // Whether keepalive is on.
      func isAsking() throws -> Bool {
        try lab.namespace.run(
          "ss", "--no-header", "--options", "state", "established", "dport", "=",
          ":\(EchoServer.port)"
        ).contains("timer:(keepalive")
      }
      // connd asks about an idle connection that a change touches (E2).
      try lab.namespace.ip("route change default via 192.0.2.1 mtu 1400")
      try client.line { $0 == "guarded" }
      try waitUntil("keepalive is on") { try isAsking() }
      try waitUntil("keepalive is off again") { try !isAsking() }
    }
  }
}
