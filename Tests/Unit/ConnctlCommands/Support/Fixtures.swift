import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Synchronization
import TestKit
import Testing
import UnixTransport

@testable import ConnctlCommands

extension KernelPath {
  static let wlan = KernelPath(
    status: .satisfied, chain: [KernelPath.Link(index: 3, name: "wlan0")], medium: .wifi,
    evidence: KernelPath.Evidence(.phy80211, "phy0", .wifi), source: IPAddress("192.0.2.7"),
    sourcePrefixLength: 24, gateway: IPAddress("192.0.2.1"), table: 254)

  static let stack = KernelPath(
    status: .satisfied,
    chain: [
      KernelPath.Link(index: 9, name: "vlan10"), KernelPath.Link(index: 8, name: "bond0"),
      KernelPath.Link(index: 2, name: "eth0"),
    ],
    medium: .wired, evidence: KernelPath.Evidence(.hardwareType, "ether", .wired),
    source: IPAddress("2001:db8:1111:2222:3333:4444:5555:6666"),
    gateway: IPAddress("fe80::1234:5678:9abc:def0"), table: 254, isExpensive: true)
}

extension ConnectivityStatus {
  static let sample = ConnectivityStatus(
    ipv4: .wlan, ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
}

extension WallTime {
  /// 2026-11-21T01:25:00.123456Z
  static let sample = WallTime(microseconds: 1_795_224_300_123_456)

  func adding(seconds: Int64) -> WallTime {
    WallTime(microseconds: self.microseconds + seconds * 1_000_000)
  }
}

extension ConnectivitySnapshot {
  static let sample = ConnectivitySnapshot(generation: 17, since: .sample, status: .sample)

  static func sample(_ generation: UInt64, _ status: ConnectivityStatus = .sample)
    -> ConnectivitySnapshot
  {
    ConnectivitySnapshot(generation: generation, since: .sample, status: status)
  }
}

extension ConnectivityStatus {
  static let offline = ConnectivityStatus(
    ipv4: KernelPath(
      status: .requiresConnection, reason: .noCarrier, chain: KernelPath.wlan.chain, medium: .wifi,
      source: IPAddress("192.0.2.7"), gateway: IPAddress("192.0.2.1"), table: 254),
    ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
}

extension ConnectivityChange.Transition {
  static let sample = ConnectivityChange.Transition(
    from: .wifi, to: .offline, bounced: false,
    cause: ChangeCause(.link, "carrierLost", message: "RTM_NEWLINK", interface: "wlan0"),
    time: .sample, snapshot: .sample(18, .offline))

  static let started = ConnectivityChange.Transition(
    from: .unknown, to: .wifi, bounced: false,
    cause: ChangeCause(.start, "started", learntLate: true), time: .sample, snapshot: .sample(16))

  static let bounce = ConnectivityChange.Transition(
    from: .wifi, to: .wifi, bounced: true,
    cause: ChangeCause(.overrun, "read again", learntLate: true),
    time: .sample, snapshot: .sample(19))
}

extension Invalidation {
  static let sample = Invalidation(
    generation: 21, reason: .interfaceLost, severity: .destroy,
    scope: Scope(interface: "wlan0", family: .ipv4),
    cause: ConnectivityChange.Transition.sample.cause, time: .sample)

  static let everything = Invalidation(
    generation: 22, reason: .categoryChanged, severity: .advise, scope: .everything,
    cause: ChangeCause(.overrun, "read again", learntLate: true), time: .sample)
}

extension InvalidationError {
  static let sample = InvalidationError(
    reason: .interfaceLost, severity: .destroy, cause: ConnectivityChange.Transition.sample.cause,
    path: .unsatisfied(.noRoute))
}

extension ConnectivityChange.PathChange {
  static let sample = ConnectivityChange.PathChange(
    cause: ChangeCause(.address, "addressAdded", message: "RTM_NEWADDR", interface: "wlan0"),
    time: .sample, snapshot: .sample(20))
}

extension Style {
  /// In UTC, so that the output is the same everywhere.
  static func plain(width: Int = 80, color: Bool = false) -> Style {
    Style(width: width, color: color) { timestamp in
      let text = timestamp.description
      return LocalTime(date: String(text.prefix(10)), time: String(text.dropFirst(11).prefix(12)))
    }
  }
}

/// Records the output of a command.
final class Screen: Sendable {
  private struct State {
    var output = ""
    var errors = ""
  }

  private let state = Mutex(State())
  private let lines: Int

  /// - Parameter lines: The number of lines after which the reader closes the pipe, like `head`.
  init(lines: Int = .max) { self.lines = lines }

  var output: String { self.state.withLock { $0.output } }
  var errors: String { self.state.withLock { $0.errors } }
  var outputLines: [String] { self.output.split(separator: "\n").map(String.init) }

  /// - Parameter width: The columns of standard output; `.max` if it is not a terminal.
  func console(width: Int) -> Console {
    var console = self.console
    console.style.width = width
    return console
  }

  /// - Parameter errorWidth: The columns of standard error's terminal.
  func console(errorWidth: Int) -> Console {
    var console = self.console
    console.errorWidth = errorWidth
    return console
  }

  /// Standard output is a terminal of 80 columns, and standard error is not a terminal.
  var console: Console {
    Console(
      write: { text in
        try self.state.withLock {
          guard $0.output.count(where: { $0 == "\n" }) < self.lines else { throw OutputClosed() }
          $0.output += text
        }
      },
      complain: { text in self.state.withLock { $0.errors += text } },
      style: .plain(width: 80), now: { WallTime.sample.adding(seconds: 185) },
      userName: { _ in nil })
  }
}

/// Compares line by line, so that a failure names the line.
func expectLines(
  _ lines: [String], _ expected: String, sourceLocation: SourceLocation = #_sourceLocation
) {
  let expected = expected.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  #expect(lines.count == expected.count, sourceLocation: sourceLocation)
  for (line, expected) in zip(lines, expected) {
    #expect(line == expected, sourceLocation: sourceLocation)
  }
}

/// The connector of connctl, on one thread for all tests.
let connector: Connector = {
  do {
    let reactor = try Reactor()
    startThread {
      try? reactor.runBlocking {
        // The thread ends with the process.
        await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
      }
    }
    return Connector(on: reactor)
  } catch {
    preconditionFailure("no reactor for the tests: \(error)")
  }
}()

/// Runs the arguments like the program does, on the thread of its connections.
func runConnctl(_ arguments: [String], on console: Console) async -> Int32 {
  await withTaskExecutorPreference(connector.executor) {
    await Program.run(arguments, on: console, through: connector)
  }
}

extension DNSSettings {
  static let sample = DNSSettings(
    servers: ["192.0.2.53", "fe80::1%wlan0"].compactMap { Server($0) }, search: ["example.org"],
    links: [Link(interface: "wlan0", servers: ["192.0.2.53"].compactMap { Server($0) })])
}

extension ConnectivityChange.DNSChange {
  static let sample = ConnectivityChange.DNSChange(
    generation: 21, settings: .sample, cause: ChangeCause(.dns, "serversChanged"), time: .sample)
}
