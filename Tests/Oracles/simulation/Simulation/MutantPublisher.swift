import Connectivity

@testable import ConndServer

/// The loop's publications, as clients see them, or altered by a mutation.
final class MutantPublisher: Publisher {
  /// Whether publications are lost.
  var isMuted = false
  /// The number of publications.
  private(set) var count = 0
  private let store: Store
  private let kernel: FaultyKernel
  private let mutation: Mutation?
  private var late: [ConnectivityChange] = []
  private var published: [Daemon.Publication] = []

  init(_ store: Store, _ kernel: FaultyKernel, _ mutation: Mutation?) {
    self.store = store
    self.kernel = kernel
    self.mutation = mutation
  }

  func take() -> [Daemon.Publication] {
    defer { self.published = [] }
    return self.published
  }

  func publish(_ changes: [ConnectivityChange]) {
    if self.isMuted { return }
    self.count += changes.count
    var changes = self.mutated(changes)
    if self.mutation == .holdsBackLoss || self.mutation == .holdsBackGain {
      let isLoss = changes.contains { $0.snapshot?.status.category == NetworkCategory.offline }
      let isHeld = isLoss == (self.mutation == .holdsBackLoss)
      (changes, self.late) = isHeld ? ([], self.late + changes) : (self.late + changes, [])
    }
    self.makeKnown(changes)
  }

  private func makeKnown(_ changes: [ConnectivityChange]) {
    var snapshot = self.store.snapshot
    for change in changes {
      self.published.append(.init(change: change, before: snapshot, at: self.kernel.now))
      snapshot.apply(change)
    }
    self.store.publish(changes.map { Published($0) })
  }

  /// The kernel sent something that requires no publication.
  func tellNoise() {
    guard self.mutation == .tellsNoise else { return }
    var snapshot = self.store.snapshot
    snapshot.generation += 1
    let cause = ChangeCause(.link, "linkUp")
    self.makeKnown([
      .path(
        ConnectivityChange.PathChange(
          cause: cause, time: ModelClock(kernel: self.kernel).time, snapshot: snapshot))
    ])
  }

  private func mutated(_ changes: [ConnectivityChange]) -> [ConnectivityChange] {
    switch self.mutation {
    case .dropsChange where self.count % 5 == 0: return Array(changes.dropLast())
    case .repeatsGeneration where self.count % 5 == 0: return changes + changes.suffix(1)
    case .invalidatesFirst: return changes.reversed()
    case .publishesOldStatus:
      let before = self.store.snapshot
      return changes.map { change in
        guard case .path(var path) = change else { return change }
        path.snapshot.status = before.status
        return .path(path)
      }
    case .knowsNothingSaysNone: return changes.map(self.withoutUnknown)
    default: return changes
    }
  }

  private func withoutUnknown(_ change: ConnectivityChange) -> ConnectivityChange {
    guard case .transition(var transition) = change, transition.to == .unknown else {
      return change
    }
    transition.to = .offline
    transition.snapshot.status = ConnectivityStatus(
      ipv4: .unsatisfied(.kernelUnavailable), ipv6: .unsatisfied(.kernelUnavailable),
      preferred: .ipv4)
    return .transition(transition)
  }
}

/// Virtual time.
struct ModelClock: MonitorClock {
  let kernel: FaultyKernel

  var now: Instant { self.kernel.now }
  var time: WallTime { WallTime(microseconds: self.kernel.now.milliseconds * 1000) }
}
