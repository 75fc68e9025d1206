import TestKit
import Testing

/// Whether connd says of a path what `ip route get` says.
enum Agreement {
  /// Probes of connd's, addresses beside them, one on the links' subnets, and one of the machine's own.
  static let destinations = [
    "17.0.0.1", "203.0.113.9", "192.0.2.200", "2001:500::1", "2001:db8:0:1::9",
  ]

  /// What both know of a path.
  private struct Answer: Hashable {
    var interface: String?
    var source: String?
    var gateway: String?
    /// Why there is none.
    var reason: String?
  }

  static func check(
    _ destination: String, in laboratory: Laboratory, after step: String,
    _ location: SourceLocation
  ) throws {
    // The kernel goes on by itself after a step: it tells of carriers and detects duplicate addresses. So connd's answer
    // counts if the kernel's was the same before and after it.
    for _ in 0..<50 {
      let before = try self.kernel(destination, in: laboratory.namespace)
      let outcome = try laboratory.connctl("path", destination, "--json")
      guard try self.kernel(destination, in: laboratory.namespace) == before else { continue }
      let path: PathReport = try decode(outcome.output)
      #expect(
        self.answer(path) == before, "\(destination) after “\(step)”: \(path)",
        sourceLocation: location)
      #expect(
        outcome.status == (path.status == "satisfied" ? 0 : 1), "\(outcome)",
        sourceLocation: location)
      return
    }
    Issue.record(
      "the kernel never answers the same about \(destination) after “\(step)”",
      sourceLocation: location)
  }

  private static func answer(_ path: PathReport) -> Answer {
    // With a route that carries no traffic there is a reason too, of which `ip route get` knows nothing.
    path.status == "unsatisfied"
      ? Answer(reason: path.reason)
      : Answer(interface: path.interface, source: path.source, gateway: path.gateway)
  }

  private static func kernel(_ destination: String, in namespace: NetworkNamespace) throws -> Answer
  {
    let outcome = try Command.outcome(
      of: namespace.wrapped(["ip", "-json", "route", "get", destination]))
    guard outcome.status == 0 else { return Answer(reason: self.reason(outcome.standardError)) }
    let routes: [RouteReport] = try decode(outcome.output)
    guard let route = routes.first, routes.count == 1 else {
      throw CommandError("ip route get \(destination): \(outcome.output)")
    }
    return Answer(
      interface: route.dev, source: route.prefsrc, gateway: route.gateway ?? route.via?.host)
  }

  /// The reasons that stand behind the kernel's errors.
  private static func reason(_ error: String) -> String {
    let reasons = [
      "Network is unreachable": "noRoute", "No route to host": "unreachable",
      "Permission denied": "prohibited", "Invalid argument": "blackhole",
      "Resource temporarily unavailable": "throw",
    ]
    return reasons.first { error.contains($0.key) }?.value ?? error
  }
}
