import Glibc
import TestKit
import Testing

/// A network namespace with connd in it, a second one that stands for the outside world, and a
/// watcher.
///
/// Used by one thread.
final class Laboratory {
  let namespace: NetworkNamespace
  /// The namespace of the links' other ends.
  let outside: NetworkNamespace
  let directory: TemporaryDirectory
  let notifications: NotificationReceiver
  private(set) var connd: RunningCommand?
  private(set) var watcher: Watcher?
  private var links = 0
  /// connd's options, besides the usual ones.
  var options: [String] = []

  var socket: String { "\(self.directory.path)/connd.sock" }
  private var configuration: String { "\(self.directory.path)/connd.yaml" }

  /// - Parameters:
  ///   - ipv6: whether links have IPv6 at all. Without it, a step causes at most one event.
  ///   - configuration: the text of the configuration file.
  init(ipv6: Bool = false, configuration: String = "") throws {
    self.namespace = try NetworkNamespace()
    self.outside = try NetworkNamespace()
    self.directory = try TemporaryDirectory()
    self.notifications = try NotificationReceiver(path: "\(self.directory.path)/notify")
    try self.directory.write(configuration, to: "connd.yaml")
    for namespace in [self.namespace, self.outside] where !ipv6 {
      try namespace.set("net/ipv6/conf/all/disable_ipv6", "1")
      try namespace.set("net/ipv6/conf/default/disable_ipv6", "1")
    }
  }

  // MARK: connd

  /// Starts connd, and returns when it is ready.
  @discardableResult
  func startConnd(
    prefix: [String] = [], until isStarted: (String) -> Bool = { $0 == "READY=1" }
  ) throws -> RunningCommand {
    let connd = try self.spawnConnd(prefix: prefix)
    self.connd = connd
    do {
      try self.notifications.variable(where: isStarted)
    } catch {
      throw CommandError("connd is not ready: \(error); \(connd.standardError)")
    }
    return connd
  }

  /// Starts connd, and returns immediately.
  ///
  /// - Parameter prefix: a command that starts connd.
  func spawnConnd(prefix: [String] = []) throws -> RunningCommand {
    try self.namespace.spawn(
      prefix + [
        Programs.connd, "--config", self.configuration, "--socket", self.socket, "--log-level",
        "debug",
      ] + self.options,
      environment: ["NOTIFY_SOCKET": self.notifications.path])
  }

  /// Starts connd and a watcher, once the namespace is prepared.
  ///
  /// - Returns: The watcher's snapshot.
  @discardableResult
  func start(prefix: [String] = []) throws -> StatusReport {
    try self.startConnd(prefix: prefix)
    let watcher = try Watcher(socket: self.socket)
    self.watcher = watcher
    let first = try watcher.next()
    #expect(first.event == "snapshot")
    return first.status
  }

  func configure(_ text: String) throws {
    try self.directory.write(text, to: "connd.yaml")
  }

  // MARK: connctl

  /// Runs it to its end, outside of the namespace; commands that guard connections run inside.
  func connctl(_ arguments: String...) throws -> Command.Outcome {
    let command = [Programs.connctl, "--socket", self.socket] + arguments
    // A recording is made in the namespace of the test.
    let isOutside = ["record", "report"].contains(arguments.first)
    return try Command.outcome(of: isOutside ? command : self.namespace.wrapped(command))
  }

  func status() throws -> StatusReport {
    try decode(try self.connctl("status", "--json").output)
  }

  // MARK: Steps

  /// Runs `ip` in the namespace, and checks that connd and the kernel agree afterwards.
  func ip(_ words: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
    try self.namespace.ip(words)
    try self.checkAgreement(after: words, sourceLocation)
  }

  /// Does something, and checks the same.
  func step(
    _ name: String, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Void
  ) throws {
    try body()
    try self.checkAgreement(after: name, sourceLocation)
  }

  private func checkAgreement(after step: String, _ location: SourceLocation) throws {
    guard self.connd != nil else { return }
    for destination in Agreement.destinations {
      try Agreement.check(destination, in: self, after: step, location)
    }
  }

  /// The end of connd's log, to explain a failure.
  var recentLog: String {
    let lines = self.connd?.standardError.split(separator: "\n").suffix(40) ?? []
    return "connd's log:\n\(lines.joined(separator: "\n"))"
  }

  /// The next event.
  func event(within deadline: Duration = .seconds(10)) throws -> EventReport {
    guard let watcher = self.watcher else { throw CommandError("nobody watches") }
    do {
      return try watcher.next(within: deadline)
    } catch let error as CommandError {
      throw CommandError("\(error); \(self.recentLog)")
    }
  }

  /// Waits until connd has evaluated all flows after everything that the kernel has reported.
  /// Without that, a further change may be part of the same evaluation.
  func awaitEvaluation() throws {
    // connd evaluates due flows before it answers questions to the kernel.
    _ = try self.connctl("path", "192.0.2.1")
  }

  /// The events up to one for which `isLast` holds, and that one.
  @discardableResult
  func events(until isLast: (EventReport) -> Bool) throws -> [EventReport] {
    var events = [try self.event()]
    while let last = events.last, !isLast(last) {
      do {
        events.append(try self.event())
      } catch {
        throw CommandError("\(error); events: \(events)")
      }
    }
    return events
  }

  /// Makes a visible change, and checks that it is the next event, so that nothing was reported
  /// before it. The path must be satisfied in IPv4 by a route of the main table.
  func expectSilence(
    after step: String, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let mark = "192.0.2.\(100 + self.fences)"
    self.fences += 1
    try self.namespace.ip("route add default via \(mark) dev eth0 metric 0")
    let event = try self.event()
    #expect(
      event.status.ipv4.gateway == mark, "after \(step): \(event)", sourceLocation: sourceLocation)
    try self.namespace.ip("route del default via \(mark) dev eth0 metric 0")
    let back = try self.event()
    #expect(back.status.ipv4.gateway != mark, "\(back)", sourceLocation: sourceLocation)
  }

  private var fences = 0
  /// How often a test has changed the default route.
  var changes = 0

  // MARK: Links

  /// Adds a link whose other end, of the same name, is outside, with both up.
  ///
  /// - Parameters:
  ///   - address: an IPv4 address of a /24; the other end gets the first address of it.
  ///   - ipv6: an IPv6 address of a /64, without duplicate address detection; the other end gets
  ///     `…::1`.
  func addLink(_ name: String, _ address: String? = nil, ipv6: String? = nil) throws {
    self.links += 1
    // Equal indexes at both ends would delay the kernel's messages about the carrier
    // (net/core/link_watch.c).
    try self.namespace.ip(
      "link add \(name) index \(10 + self.links) type veth "
        + "peer name \(name) index \(1000 + self.links) netns \(self.outside.name)")
    for namespace in [self.namespace, self.outside] { try namespace.ip("link set \(name) up") }
    if let address {
      try self.namespace.ip("address add \(address)/24 dev \(name)")
      let prefix = address.split(separator: ".").dropLast().joined(separator: ".")
      try self.outside.ip("address add \(prefix).1/24 dev \(name)")
    }
    if let ipv6 {
      try self.namespace.ip("address add \(ipv6)/64 dev \(name) nodad")
      let prefix = ipv6.split(separator: ":", omittingEmptySubsequences: false).dropLast()
      try self.outside.ip("address add \(prefix.joined(separator: ":")):1/64 dev \(name) nodad")
    }
  }
}

extension NetworkNamespace {
  /// Writes to a file below /proc/sys.
  func set(_ name: String, _ value: String) throws {
    try self.run("sh", "-c", "echo \(value) >/proc/sys/\(name)")
  }
}
