import TestKit
import Testing

/// Compares connd's path with the output of `ip route get`.
enum Agreement {
  /// connd's probes, addresses next to them, one in the links' subnets, and one of the machine's
  /// own.
  static let destinations = [
    "17.0.0.1", "203.0.113.9", "192.0.2.200", "2001:500::1", "2001:db8:0:1::9",
  ]

  /// The properties of a path that both know.
  private struct Answer: Hashable {
    var interface: String?
    var source: String?
    var gateway: String?
    /// The reason for a missing path.
    var reason: String?
  }

  static func check(
    _ destination: String, in laboratory: Laboratory, after step: String,
    _ location: SourceLocation
  ) throws {
    // The kernel works on after a step: it reports carriers and detects duplicate addresses. So
    // connd's answer counts if the kernel's was the same before and after it.
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
    // A route that carries no traffic also has a reason, which `ip route get` does not know.
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

  /// The reasons for the kernel's error texts.
  private static func reason(_ error: String) -> String {
    let reasons = [
      "Network is unreachable": "noRoute", "No route to host": "unreachable",
      "Permission denied": "prohibited", "Invalid argument": "blackhole",
      "Resource temporarily unavailable": "throw",
    ]
    return reasons.first { error.contains($0.key) }?.value ?? error
  }
}
