import Glibc
import TestKit
import TestTraits
import Testing

/// The clients of `clients/`, and `connctl guard --stdin`, each with a driver in
/// `Tests/Programs/clients`.
enum PlainClient: String, CaseIterable {
  case c
  /// `connd.install()`
  case python
  /// `python -m connd`
  case pythonCommand
  case node
  case go
  /// A program in Perl that `connctl guard --stdin` tells to end its connections.
  case stdin

  /// Those with a descriptor for each connection that a program can see, and fork(2).
  static let withDescriptors: [Self] = [.c, .python, .pythonCommand, .stdin]
  /// Those in the program's process. They can ask its peers, and know which connections are new.
  static let inProcess = Self.allCases.filter { $0 != .stdin }

  /// Clients with a function that guards an older connection.
  static let withGuard: [Self] = [.c, .python, .node]

  /// The word for a connection that is not guarded because connd was wrong. A program in Go learns
  /// only of the first one.
  var unguardedWord: String? {
    switch self {
    case .c: "unguarded"
    case .python, .pythonCommand, .node: "suspended"
    case .go, .stdin: nil
    }
  }

  /// Whether its driver knows the state of the network.
  var hasStatus: Bool { self != .go }

  private static let driver = Result { try Programs.made(by: "Tests/Programs/clients/build") }
  private static let goDriver = Result { try Programs.made(by: "Tests/Programs/clients/build-go") }

  fileprivate func command() throws -> [String] {
    let file = Checkout.path("Tests/Programs/clients/driver.")
    switch self {
    case .c: return [try Self.driver.get()]
    case .python: return ["python3", "-B", "\(file)py"]
    case .pythonCommand: return ["python3", "-B", "-m", "connd", "\(file)py"]
    case .node:
      try TestSize.needsAll("Node.js")
      return ["node", "--import", Checkout.path("clients/node/guard.mjs"), "\(file)mjs"]
    case .go: return [try Self.goDriver.get()]
    case .stdin: return ["perl", "\(file)pl"]
    }
  }
}

/// A driver, or another program that reads and prints lines. A driver has the commands and lines
/// that `driver.py` describes.
///
/// Used by one thread.
final class GuardedProgram {
  static let port = 7000
  private let command: RunningCommand
  /// The writing end of its standard input.
  private let input: CInt
  /// Lines that were read and not taken yet. Those of connd's thread come in any order.
  private(set) var lines: [String] = []

  /// - Parameter namespace: where it runs, if not in the laboratory's.
  convenience init(
    _ client: PlainClient, _ lab: Laboratory, in namespace: NetworkNamespace? = nil,
    environment: [String: String] = [:]
  ) throws {
    try self.init(client.command(), lab, in: namespace, environment: environment)
    try self.next("ready")
  }

  init(
    _ words: [String], _ lab: Laboratory, in namespace: NetworkNamespace? = nil,
    environment: [String: String] = [:]
  ) throws {
    let pipe = "\(lab.directory.path)/input-\(UInt64.random(in: 0 ..< .max))"
    guard mkfifo(pipe, 0o600) == 0 else { throw CommandError("\(pipe): errno \(errno)") }
    // Open at both ends, so that neither side waits for the other.
    self.input = Glibc.open(pipe, O_RDWR | O_CLOEXEC)
    self.command = try (namespace ?? lab.namespace).spawn(
      ["sh", "-c", "exec \"$@\" <\"$0\"", pipe] + words,
      environment: [
        "CONND_SOCKET": lab.socket, "PYTHONPATH": Checkout.path("clients/python"),
        "CONNCTL": Programs.connctl,
        // It does not know threads that are in a system call at the end.
        "ASAN_OPTIONS": "detect_leaks=0",
      ].merging(environment) { $1 })
  }

  deinit { close(self.input) }

  func send(_ line: String) throws {
    let bytes = Array("\(line)\n".utf8)
    guard write(self.input, bytes, bytes.count) == bytes.count else {
      throw CommandError("no input: errno \(errno)")
    }
  }

  /// The first untaken line that begins with these words.
  ///
  /// - Throws: if it does not come in time.
  @discardableResult
  func next(_ words: String, within deadline: Duration = .seconds(20)) throws -> String {
    func isMeant(_ line: String) -> Bool { line == words || line.hasPrefix("\(words) ") }
    if let index = self.lines.firstIndex(where: isMeant) { return self.lines.remove(at: index) }
    let patience = Patience(deadline)
    do {
      while let line = try self.command.nextLine(within: patience) {
        if isMeant(line) { return line }
        self.lines.append(line)
      }
    } catch {
      throw CommandError("no \(words): \(error); \(self.lines); \(self.command.standardError)")
    }
    throw CommandError("the driver has ended: \(self.lines); \(self.command.standardError)")
  }

  /// Makes a connection, and waits until connd guards it.
  func connect(_ number: Int, to address: String = Uplinks.server) throws {
    try self.send("connect \(number) \(address) \(Self.port)")
    try self.next("open \(number)")
    try self.next("path \(number)")
  }

  /// Checks that data comes back, and that no connection has ended.
  func expectEcho(_ number: Int, sourceLocation: SourceLocation = #_sourceLocation) throws {
    try self.send("echo \(number)")
    try self.next("echoed \(number)")
    self.expectNothing("ended", sourceLocation: sourceLocation)
  }

  /// Checks that no line that was read and not taken begins with this word.
  func expectNothing(_ word: String, sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(
      !self.lines.contains { $0.hasPrefix(word) }, "\(self.lines)", sourceLocation: sourceLocation)
  }

  /// Waits until a connection has ended like one that the peer reset. Only then a program does not
  /// take a cut response for a complete one.
  func expectReset(_ number: Int, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let line = try self.next("ended \(number)", within: .seconds(60))
    #expect(line == "ended \(number) reset", sourceLocation: sourceLocation)
  }
}

extension Laboratory {
  /// Starts `echo.py` outside.
  func startEcho(in namespace: NetworkNamespace? = nil) throws -> RunningCommand {
    let server = try (namespace ?? self.outside).spawn([
      "python3", "-B", Checkout.path("Tests/Programs/clients/echo.py"), "\(GuardedProgram.port)",
    ])
    try server.line { $0 == "ready" }
    return server
  }
}
