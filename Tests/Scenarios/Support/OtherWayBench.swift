import TestKit
import Testing

/// A host on a Wi-Fi with a round trip of 20 ms. A cable of 60 ms has a default route, too.
struct OtherWayBench {
  /// A global address, which no host outside of the laboratory ever sees.
  static let server = "93.184.215.14"
  static let secondServer = "93.184.216.34"
  static let thirdServer = "93.184.217.21"
  static let byWiFi = "10.0.0.2"
  static let byCable = "10.1.0.2"

  let lab: Laboratory
  let wifi: LossyLink
  let cable: LossyLink
  let server: CallServer

  init(
    configuration: String = "", wifi: String = "wlan0", cable: String = "eth1",
    prepare: (NetworkNamespace) throws -> Void = { _ in }
  ) throws {
    let lab = try Laboratory(configuration: Uplinks.media + configuration)
    self.lab = lab
    try lab.outside.ip("address add \(Self.server)/32 dev lo")
    try lab.namespace.set("net/ipv4/conf/all/rp_filter", "2")
    self.wifi = try LossyLink(wifi, 0, in: lab, delay: .milliseconds(10))
    self.cable = try LossyLink(cable, 1, in: lab, delay: .milliseconds(30))
    for (number, link) in [wifi, cable].enumerated() {
      try lab.namespace.ip(
        "route add default via 10.\(number).0.1 dev \(link) metric \(600 + 100 * number)")
    }
    try prepare(lab.namespace)
    try lab.start()
    self.server = try CallServer(lab)
  }

  func client(_ arguments: [String] = [], channels: Int = 1) throws -> CallProbe {
    let target = "\(Self.server):\(CallServer.port)"
    return try CallProbe(
      self.lab, to: Array(repeating: target, count: channels), arguments)
  }

  /// The number of connections to the server from an address.
  func connections(from local: String) throws -> Int {
    try self.sockets(from: local).count
  }

  /// The highest number of timeouts in a row of the connections from an address.
  func timeouts(from local: String) throws -> Int {
    let fields = try self.sockets(from: local).flatMap { $0.split(separator: " ") }
    return fields.compactMap { field in
      field.hasPrefix("backoff:") ? Int(field.dropFirst("backoff:".count)) : nil
    }.max() ?? 0
  }

  /// The established sockets with their `tcp_info`, one a line.
  private func sockets(from local: String) throws -> [Substring] {
    try self.lab.namespace.run(
      "ss", "-HOtni", "state", "established", "src", local, "dport", "=", ":\(CallServer.port)"
    ).split(separator: "\n")
  }

  /// Makes the first call of each channel. The cable wins no race, however busy the machine is.
  func callByWiFi(_ client: CallProbe, channels: Int = 1) throws {
    self.cable.lose(1)
    for channel in 0..<channels {
      try client.expectNextCall(channel, from: Self.byWiFi, "call on a good Wi-Fi")
    }
    self.cable.lose(0)
  }
}
