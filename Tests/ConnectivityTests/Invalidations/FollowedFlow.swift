@testable import Connectivity

/// A flow, and what its client is told of each reading.
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

  /// What is told, as `destroy betterPath`; `nil` for nothing.
  mutating func see(
    _ reading: FlowReading, _ change: FlowTracker.CategoryChange? = nil, slept: Duration? = nil,
    at milliseconds: Int = 0
  ) -> String? {
    let verdict = self.tracker.update(
      to: reading, .init(categoryChange: change, slept: slept), policy: self.policy,
      at: Instant(milliseconds: milliseconds))
    return verdict?.text
  }

  var deadline: Int? { self.tracker.deadline?.milliseconds }
}

extension FlowReading {
  /// The default path over this link, and its first router behind it.
  static func by(_ link: TestLink, router: UInt8? = 1) -> FlowReading {
    let path = link.observed(.ipv4)?.path ?? .unsatisfied(.noRoute)
    var reading = FlowReading(path)
    reading.network.gateway = path.gateway
    reading.network.gatewayHardwareAddress = router.map { [2, 0, 0, 0, 0, $0] }
    reading.network.prefix = path.source.flatMap { IPPrefix($0, length: 24) }
    return reading
  }

  /// A neighbour on this link, without a gateway.
  static func onLink(_ link: TestLink) -> FlowReading { .by(link).with { $0.path.gateway = nil } }

  static let noRoute = FlowReading(.unsatisfied(.noRoute))
  static let unknown = FlowReading(.unknown)

  func with(_ change: (inout FlowReading) -> Void) -> FlowReading {
    var reading = self
    change(&reading)
    return reading
  }
}
