import Connectivity
import Netlink

@testable import ConndServer

/// A connd that breaks one rule, which the invariants must notice.
///
/// The fault is put where the simulation drives the engine: into what it is told, answered and configured with, and into
/// what becomes of what it says.
enum Mutation: String, CaseIterable, Sendable {
  /// K3: links without a carrier are taken for good ones.
  case ignoresCarrier
  /// K8: a kernel that cannot be asked is taken for no network.
  case knowsNothingSaysNone
  /// T1: a loss is published with the next change.
  case holdsBackLoss
  /// T1: a link that flaps is never noticed to.
  case holdsNoGain
  /// T2: what the messages say is not listened to.
  case swallowsBounce
  /// T3: only one probe stands for the internet.
  case asksOneProbe
  /// T3: whatever the kernel says is published.
  case tellsNoise
  /// T4: the status published is that of the change before.
  case publishesOldStatus
  /// I1
  case keepsLostAddress
  /// I2
  case keepsLostLink
  /// I3
  case keepsOldPath
  /// I4: of gateways nothing is heard or asked.
  case ignoresNeighbours
  /// I5: a changed category means nothing.
  case ignoresCategory
  /// I5: a changed category ends what never left the machine, too.
  case sparesNobody
  /// I6
  case ignoresSleep
  /// I7: an overrun ends all flows.
  case overrunDestroys
  /// I7: an overrun is not acted upon.
  case ignoresOverrun
  /// I7: a restart ends all flows.
  case restartDestroys
  /// I7: what an earlier run published is not compared with.
  case forgetsAtRestart
  /// I7: the first reading after a restart is not made.
  case startsBlind
  /// I8
  case ignoresPolicy
  /// I9: one generation for two changes.
  case repeatsGeneration
  /// I9: invalidations before the transition that they follow from.
  case invalidatesFirst
  /// I9: a flow that was destroyed is not told of.
  case forgetsDestroyed
  /// I9: a flow that nothing happened to is destroyed.
  case destroysUnaffected
  /// I10: what is lost for a moment is lost.
  case hasNoGrace
  /// I10: no grace ends.
  case hasEndlessGrace
  /// D5: a change is lost on its way to the history.
  case dropsChange
  /// D6: the filter does not follow what is guarded.
  case filtersTooMuch
  /// D8: the kernel is read no more after a failure.
  case staysBlind
}

extension Mutation? {
  func configuration(_ configuration: Configuration) -> Configuration {
    var configuration = configuration
    switch self {
    case .asksOneProbe:
      for (family, probes) in [
        (\DefaultDestination.ipv4, configuration.destinations.ipv4),
        (\DefaultDestination.ipv6, configuration.destinations.ipv6),
      ] { configuration.destinations[keyPath: family] = Array(probes.prefix(1)) }
    case .keepsOldPath: configuration.invalidations.betterPath = .advise
    case .ignoresCategory: configuration.invalidations.categoryChanged = .advise
    case .hasNoGrace:
      configuration.invalidations.wifiGrace = .zero
      configuration.invalidations.routeGrace = .zero
    case .hasEndlessGrace:
      configuration.invalidations.wifiGrace = .seconds(1_000_000)
      configuration.invalidations.routeGrace = .seconds(1_000_000)
    default: break
    }
    return configuration
  }

  func events(_ events: [KernelEvent]) -> [KernelEvent] {
    switch self {
    case .ignoresNeighbours:
      events.filter { if case .neighbour = $0 { false } else { true } }
    case .ignoresOverrun: events.filter { $0 != .overrun }
    default: events
    }
  }

  /// What the changes are compared with: only the bounce has its evidence in the messages.
  func occasion(_ occasion: Occasion) -> Occasion {
    guard self == .swallowsBounce, case .events = occasion else { return occasion }
    return .events([])
  }

  func clock(_ now: Instant) -> Instant {
    guard self == .holdsNoGain else { return now }
    return Instant(sinceStart: now.sinceStart * 50)
  }

  func clockBack(_ then: Instant?) -> Instant? {
    guard self == .holdsNoGain else { return then }
    return then.map { Instant(sinceStart: $0.sinceStart / 50) }
  }
}

/// A kernel of which something is not believed.
final class MutantKernel: Kernel {
  private let kernel: FaultyKernel
  private let mutation: Mutation?

  init(_ kernel: FaultyKernel, _ mutation: Mutation?) {
    self.kernel = kernel
    self.mutation = mutation
  }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    var drained: [KernelEvent] = []
    defer { events += self.mutation.events(drained) }
    return try self.kernel.drain(into: &drained)
  }

  func route(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    try self.kernel.route(to: destination)
  }

  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    try self.kernel.routes(to: destinations)
  }

  func match(for destination: Destination) throws(KernelUnavailable) -> MatchedRoute? {
    try self.kernel.match(for: destination)
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    var facts = try self.kernel.link(index)
    switch self.mutation {
    case .ignoresCarrier:
      guard facts?.link.flags.contains(.up) == true else { break }
      facts?.link.flags.insert(.lowerUp)
      facts?.link.carrier = true
      facts?.link.operationalState = .up
    case .keepsLostLink:
      let some = Link(index: index, name: "gone", flags: [.up, .lowerUp], carrier: true)
      return facts.flatMap { $0.link.state == .up ? $0 : nil } ?? LinkFacts(some)
    default: break
    }
    return facts
  }

  func hasAddress(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Bool {
    let isPresent = try self.kernel.hasAddress(address, on: link)
    return self.mutation == .keepsLostAddress || isPresent
  }

  func address(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Address? {
    try self.kernel.address(address, on: link)
  }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    let neighbour = try self.kernel.neighbour(address, on: link)
    return self.mutation == .ignoresNeighbours ? nil : neighbour
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] { try self.kernel.links() }
  func addresses() throws(KernelUnavailable) -> [Address] { try self.kernel.addresses() }
  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Netlink.Rule] { [] }

  func watch(_ watched: Watched) throws(KernelUnavailable) {
    try self.kernel.watch(self.watched(watched))
  }

  func watched(_ watched: Watched) -> Watched {
    var watched = watched
    if self.mutation == .filtersTooMuch { watched.destinations = [] }
    return watched
  }
}
