import TestKit
import Testing

/// A laboratory with a call server outside, and a client with three channels: two to addresses of
/// the server by the default route, one to its address on an unaffected link.
struct CallBench {
  /// An address of the outside host that is on none of the links.
  static let server = "203.0.113.1"
  /// Another such address.
  static let otherServer = "203.0.113.2"
  /// The outside host on the link eth9.
  static let neighbour = "10.9.0.1"

  /// The channels of the client.
  static let far = 0
  static let alsoFar = 1
  static let near = 2

  static let media = """
    links:
      - {match: "wlan*", medium: wifi}
      - {match: "wwan*", medium: cellular}
      - {match: "eth*", medium: wired}

    """

  let lab: Laboratory

  /// A host with the given links, each with the address 10.N.0.2, and default routes over all of
  /// them, the first preferred.
  ///
  /// The outside host drops packets by strict reverse path filtering, as providers do (RFC 3704).
  ///
  /// - Parameters:
  ///   - routes: the links that have a default route; `nil` for all.
  ///   - configuration: the text that follows the media in connd's configuration.
  ///   - withConnd: whether connd runs, and is watched.
  init(
    _ links: [String], routes: [String]? = nil, configuration: String = "", withConnd: Bool = true
  ) throws {
    let lab = try Laboratory(configuration: Self.media + configuration)
    self.lab = lab
    try lab.outside.set("net/ipv4/conf/all/rp_filter", "1")
    try lab.outside.set("net/ipv4/conf/default/rp_filter", "1")
    for address in [Self.server, Self.otherServer] {
      try lab.outside.ip("address add \(address)/32 dev lo")
    }
    for (number, link) in links.enumerated() {
      try lab.addLink(link, "10.\(number).0.2")
      // The gateway's MAC address is known, as after DHCP. Otherwise a late packet of a connection
      // that drains may ask for it by the old address, which the outside host ignores for 3 s.
      try lab.namespace.run("ping", "-q", "-c", "1", "10.\(number).0.1")
      if routes?.contains(link) ?? true {
        try lab.namespace.ip(
          "route add default via 10.\(number).0.1 dev \(link) metric \(100 + 100 * number)")
      }
    }
    try lab.addLink("eth9", "10.9.0.2")
    if withConnd { try lab.start() }
  }

  /// A client with a channel to each target: addresses, or names in the file that the arguments
  /// give.
  ///
  /// Its backoff is so long that a call that waits for it comes too late.
  func client(
    to targets: [String] = [CallBench.server, CallBench.otherServer, CallBench.neighbour],
    arguments: [String] = []
  ) throws -> CallProbe {
    let targets = targets.map { $0.hasSuffix(".test") ? $0 : "\($0):\(CallServer.port)" }
    return try CallProbe(self.lab, to: targets, ["--backoff", "60"] + arguments)
  }

  /// Starts calls on all channels and makes the change: calls by the default route end, those to
  /// the neighbour go on, and the next calls succeed.
  ///
  /// - Parameters:
  ///   - reasons: the reasons for which the calls may end.
  ///   - local: the local address of the next calls.
  func expectEnd(
    _ what: String, _ reasons: String?..., next local: String,
    sourceLocation: SourceLocation = #_sourceLocation, change: () throws -> Void
  ) throws {
    let server = try CallServer(self.lab)
    let client = try self.client()
    let far = try [Self.far, Self.alsoFar].map { try client.open($0) }
    let near = try client.open(Self.near)
    try self.settled()
    let moment = CallProbe.now
    try change()
    for calls in far {
      try client.expectEnded(calls, reasons, since: moment, what, sourceLocation: sourceLocation)
      try client.expectNextCall(calls.channel, from: local, what, sourceLocation: sourceLocation)
    }
    try client.expectUndisturbed(near, sourceLocation: sourceLocation)
    try client.expectNextCall(Self.near, from: "10.9.0.2", what, sourceLocation: sourceLocation)
    try client.quit(sourceLocation: sourceLocation)
    try server.end(sourceLocation: sourceLocation)
  }

  /// Starts calls on two channels and makes the change: all of them go on.
  ///
  /// - Parameter next: whether the next call uses the same connection, or may use another.
  func expectNoEnd(
    next isSame: Bool = true, sourceLocation: SourceLocation = #_sourceLocation,
    change: () throws -> Void
  ) throws {
    let server = try CallServer(self.lab)
    let client = try self.client()
    let far = try client.open(Self.far)
    let near = try client.open(Self.near)
    try change()
    for calls in [far, near] {
      try client.expectUndisturbed(calls, sourceLocation: sourceLocation)
    }
    let next = try client.open(Self.far)
    if isSame { #expect(next.local == far.local, sourceLocation: sourceLocation) }
    try client.quit(sourceLocation: sourceLocation)
    try server.end(sourceLocation: sourceLocation)
  }

  /// Returns when all data on connections between the two hosts is acknowledged.
  func settled() throws {
    try waitUntil("all that was sent has arrived") {
      try [self.lab.namespace, self.lab.outside].allSatisfy { namespace in
        try namespace.run("ss", "-Htn", "state", "established").split(separator: "\n")
          .allSatisfy { $0.split(separator: " ").dropFirst().first == "0" }
      }
    }
  }

  /// The number of packets that the outside host received on links by which it would not answer.
  func strayPackets() throws -> Int {
    let lines = try self.lab.outside.run("cat", "/proc/net/netstat").split(separator: "\n")
      .filter { $0.hasPrefix("TcpExt:") }.map { $0.split(separator: " ") }
    guard lines.count == 2, let column = lines[0].firstIndex(of: "IPReversePathFilter"),
      let count = Int(lines[1][column])
    else { throw CommandError("no counter of the reverse path filter: \(lines)") }
    return count
  }
}
