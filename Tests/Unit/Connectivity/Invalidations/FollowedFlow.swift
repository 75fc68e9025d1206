import Connectivity
import ConnectivityRules

/// A flow, and the verdict its client gets for each reading.
struct FollowedFlow {
  private(set) var tracker: FlowTracker
  var policy = InvalidationPolicy()

  init(on reading: FlowReading, policy: InvalidationPolicy = InvalidationPolicy()) {
    self.init(Flow(Destination("203.0.113.5")), on: reading, policy: policy)
  }

  init(_ flow: Flow, on reading: FlowReading, policy: InvalidationPolicy = InvalidationPolicy()) {
    self.tracker = FlowTracker(flow, on: reading.path, network: reading.network)
    self.policy = policy
  }

  /// The verdict at registration.
  mutating func register(
    _ reading: FlowReading, since: Invalidation? = nil, at milliseconds: Int = 0
  ) -> String? {
    self.tracker.register(
      on: reading, since: since, policy: self.policy, at: Instant(milliseconds: milliseconds))?
      .text
  }

  /// The verdict, such as `destroy betterPath`, or `nil` for none.
  mutating func see(
    _ reading: FlowReading, slept: Duration? = nil, at milliseconds: Int = 0
  ) -> String? {
    self.tracker.update(
      to: reading, slept: slept, policy: self.policy, at: Instant(milliseconds: milliseconds))?
      .text
  }

  var deadline: Int? { self.tracker.deadline?.milliseconds }
}

extension FlowReading {
  /// The way over this link, with a router behind it.
  ///
  /// - Parameters:
  ///   - stage: how often the link was lost before.
  ///   - first: the epoch since which this router has been there.
  static func by(
    _ link: TestLink, router: UInt8? = 1, epoch: UInt64 = 0, first: UInt64 = 0
  ) -> FlowReading {
    let path = link.observed(.ipv4)?.path ?? .unsatisfied(.noRoute)
    let network = NetworkIdentity(
      gateway: path.gateway, gatewayHardwareAddress: router.map { [2, 0, 0, 0, 0, $0] },
      prefix: path.source.flatMap { IPPrefix($0, length: 24) }, epoch: epoch,
      oldestValidEpoch: first)
    return FlowReading(path, network: network)
  }

  /// Another link has taken over from the flow's.
  static func by(_ link: TestLink, leaving left: FormerLink) -> FlowReading {
    .by(link).with { $0.formerLink = left }
  }

  /// A neighbour on this link, without a gateway.
  static func onLink(_ link: TestLink) -> FlowReading {
    .by(link).with {
      $0.path.gateway = nil
      $0.network.gateway = nil
      $0.network.gatewayHardwareAddress = nil
    }
  }

  static let noRoute = FlowReading(.unsatisfied(.noRoute))

  func with(_ change: (inout FlowReading) -> Void) -> FlowReading {
    var reading = self
    change(&reading)
    return reading
  }

  /// The same reading, with another way for new connections.
  func beside(_ link: TestLink, isKept: Bool = false) -> FlowReading {
    self.with {
      $0.alternative = .init(link: link.index, source: link.source(.ipv4), isKept: isKept)
    }
  }
}
