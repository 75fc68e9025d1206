package import Connectivity

/// A client's report about an attempt to connect by a link.
package struct LinkAttempt: Hashable, Sendable {
  package var outcome: AttemptOutcome
  package var host: IPAddress
  package var user: UInt32

  package init(_ outcome: AttemptOutcome, to host: IPAddress, by user: UInt32) {
    self.outcome = outcome
    self.host = host
    self.user = user
  }
}

/// The state of the connections on a link, as connd examined them.
package struct SocketCensus: Hashable, Sendable {
  /// Several hosts are unlikely to be dead at the same time.
  static let minHosts = 2
  private static let minTimeouts = 3
  private static let heardWithin = Duration.milliseconds(1500)

  /// The hosts of the silent connections.
  private var silentHosts: Set<IPAddress> = []
  private var silent = 0
  private var heard = 0

  package init() {}

  /// Counts a connection. After three consecutive timeouts it counts as silent.
  package mutating func count(_ report: SocketReport, of host: IPAddress) {
    if report.hasUnacknowledgedData, report.timeouts >= Self.minTimeouts {
      self.silent += 1
      self.silentHosts.insert(host)
    } else if report.silence <= Self.heardWithin {
      self.heard += 1
    }
  }

  /// Whether more connections are silent than heard.
  var isTroubled: Bool { self.silent > self.heard }
  /// Whether the silence cannot be due to a single dead host.
  var isOfLink: Bool { self.isTroubled && self.silentHosts.count >= Self.minHosts }
}
