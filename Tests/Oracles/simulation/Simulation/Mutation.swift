import Connectivity
import ConnectivityRules

@testable import ConndServer

/// A connd that breaks one rule, which the invariants must notice.
///
/// The fault is around the monitor's loop: in its input, answers and configuration, and in its
/// output.
enum Mutation: String, CaseIterable, Sendable {
  /// K2: lookups do not wait for changes that the kernel has announced.
  case readsTooEarly
  /// K3: links without a carrier count as working.
  case ignoresCarrier
  /// K8: a kernel that cannot be asked counts as no network.
  case knowsNothingSaysNone
  /// T1: a loss is published with the next change.
  case holdsBackLoss
  /// T1: a gain is published with the next change.
  case holdsBackGain
  /// T2: messages are not evidence of a bounce.
  case swallowsBounce
  /// T3: a single probe stands for the internet.
  case asksOneProbe
  /// T3: every kernel message is published.
  case tellsNoise
  /// T3: late links stay filtered out, whatever leads to them.
  case ignoresLateLinks
  /// T3: early links are filtered out.
  case ignoresEarlyLinks
  /// T4: the published status is that of the change before.
  case publishesOldStatus
  /// I1
  case keepsLostAddress
  /// I2
  case keepsLostLink
  /// I3
  case keepsOldPath
  /// I4: gateways are neither watched nor queried.
  case ignoresNeighbours
  /// I5: a changed category is ignored.
  case ignoresCategory
  /// I5: a changed category also ends flows that never leave the machine.
  case sparesNobody
  /// I6
  case ignoresSleep
  /// I7: an overrun ends all flows.
  case overrunDestroys
  /// I7: an overrun is ignored.
  case ignoresOverrun
  /// I7: a restart ends all flows.
  case restartDestroys
  /// I7: the first reading is not compared with the earlier publications.
  case forgetsAtRestart
  /// I7: changes found by the first reading after a restart are not published.
  case startsBlind
  /// I8
  case ignoresPolicy
  /// I9: one generation for two changes.
  case repeatsGeneration
  /// I9: invalidations come before the transition that causes them.
  case invalidatesFirst
  /// I9: a destroyed flow gets no report.
  case forgetsDestroyed
  /// I9: an unaffected flow is destroyed.
  case destroysUnaffected
  /// I10: a temporary loss is final.
  case hasNoGrace
  /// I10: grace periods never end.
  case hasEndlessGrace
  /// E0: each lookup is proof.
  case trustsEachLookup
  /// E0: no lookup is proof.
  case trustsNoLookup
  /// E1: no socket is queried.
  case asksNoSocket
  /// E1: every socket has just received something new.
  case believesAll
  /// E1: retransmissions count as new data.
  case countsCopies
  /// E2: unacknowledged data is overlooked.
  case overlooksSilence
  /// E1: what is sent after a change is not noticed.
  case neverSeesSendings
  /// E4: a question to the peer is not noticed.
  case neverSeesQuestions
  /// E4: an answer of the peer is not noticed.
  case neverSeesAnswers
  /// E2: timeouts count at which nothing was sent.
  case countsUnsent
  /// E2: a socket that was silent once stays silent.
  case neverHearsAgain
  /// D5: a change is lost on its way to the history.
  case dropsChange
  /// D6: the filter does not follow the guarded flows.
  case filtersTooMuch
  /// D8: the kernel is not read any more after a failure.
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
      configuration.invalidations.carrierGrace = [:]
      configuration.invalidations.routeGrace = .zero
    case .hasEndlessGrace:
      configuration.invalidations.carrierGrace = [.wifi: .seconds(1_000_000)]
      configuration.invalidations.routeGrace = .seconds(1_000_000)
    default: break
    }
    return configuration
  }

  /// The changes of an earlier run; if they are forgotten, the last category is unknown.
  func past(_ past: [Published]) -> [Published] {
    guard self == .forgetsAtRestart, case .some(var last) = past.last?.change.snapshot else {
      return past
    }
    last.generation = past.last?.change.generation ?? last.generation
    last.status = ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: .ipv4)
    let change = ConnectivityChange.path(
      ConnectivityChange.PathChange(
        cause: ChangeCause(.start, ""), time: last.since, snapshot: last))
    return past.dropLast() + [Published(change)]
  }

  func events(_ events: [KernelEvent]) -> [KernelEvent] {
    switch self {
    case .ignoresNeighbours:
      events.filter { if case .neighbour = $0 { false } else { true } }
    case .ignoresOverrun: events.filter { $0 != .overrun }
    // Messages about links, addresses and routes are the only evidence of a bounce.
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

  /// - Parameter before: The former report of the same socket.
  func report(_ report: SocketReport?, after before: SocketReport?) -> SocketReport? {
    guard var report else { return nil }
    switch self {
    case .asksNoSocket: return nil
    case .believesAll:
      return SocketReport(
        silence: .zero, progress: (before?.progress ?? 0) + 1, roundTrip: report.roundTrip)
    case .countsCopies: report.dataSilence = report.silence
    case .overlooksSilence: report.hasUnacknowledgedData = false
    case .neverSeesSendings: (report.resent, report.sent) = (0, 0)
    case .neverSeesQuestions: report.probes = 0
    case .neverSeesAnswers:
      report.probes += Int(report.acknowledgements)
      (report.acknowledgements, report.silence) = (0, report.dataSilence)
    case .countsUnsent: report.resent = UInt64(report.timeouts)
    case .neverHearsAgain:
      guard let before, before.timeouts > 0, report.timeouts == 0 else { break }
      return before
    default: break
    }
    return report
  }
}
