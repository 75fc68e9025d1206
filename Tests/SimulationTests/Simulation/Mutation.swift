import Connectivity
import ConnectivityRules

@testable import ConndServer

/// A connd that breaks one rule, which the invariants must notice.
///
/// The fault is put around the monitor's loop: into what it is told, answered and configured with, and into what becomes of
/// what it says.
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
  /// T3: a link that comes late is never heard, whatever leads to it.
  case ignoresLateLinks
  /// T3: links are not heard that were there before the others.
  case ignoresEarlyLinks
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
  /// I7: what the first reading after a restart shows is not told.
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
  /// E1: no socket is asked.
  case asksNoSocket
  /// E1: every socket has heard something new just now.
  case believesAll
  /// E1: copies of old packets are taken for new ones.
  case countsCopies
  /// E2: data that is not acknowledged is overlooked.
  case overlooksSilence
  /// E2: a socket that was silent once stays silent.
  case neverHearsAgain
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

  /// What an earlier run published: where it is forgotten, nothing tells what the last category was.
  func past(_ past: [Published]) -> [Published] {
    guard self == .forgetsAtRestart, case .some(var last) = past.last?.change.snapshot else {
      return past
    }
    last.generation = past.last?.change.generation ?? last.generation
    last.status = ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: .ipv4)
    let change = Change.path(PathChange(cause: Cause(.start, ""), time: last.since, snapshot: last))
    return past.dropLast() + [try? Published(change)].compactMap { $0 }
  }

  func events(_ events: [KernelEvent]) -> [KernelEvent] {
    switch self {
    case .ignoresNeighbours:
      events.filter { if case .neighbour = $0 { false } else { true } }
    case .ignoresOverrun: events.filter { $0 != .overrun }
    // The evidence of a bounce is in the messages of links, addresses and routes, and nowhere else.
    case .swallowsBounce:
      events.map { event in
        switch event {
        case .neighbour, .overrun: event
        default: .malformed("")
        }
      }
    default: events
    }
  }

  /// - Parameter before: What the same socket said before.
  func report(_ report: SocketReport?, after before: SocketReport?) -> SocketReport? {
    guard var report else { return nil }
    switch self {
    case .asksNoSocket: return nil
    case .believesAll:
      return SocketReport(
        silence: .zero, progress: (before?.progress ?? 0) + 1, roundTrip: report.roundTrip)
    case .countsCopies: report.dataSilence = report.silence
    case .overlooksSilence: report.hasUnacknowledgedData = false
    case .neverHearsAgain:
      guard let before, before.timeouts > 0, report.timeouts == 0 else { break }
      return before
    default: break
    }
    return report
  }

  func clock(_ now: Instant) -> Instant {
    guard self == .holdsNoGain else { return now }
    return Instant(sinceStart: now.sinceStart * 50)
  }

  func clockBack(_ then: Instant) -> Instant {
    self == .holdsNoGain ? Instant(sinceStart: then.sinceStart / 50) : then
  }
}
