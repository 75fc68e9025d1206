import GRPCCore
import GRPCNIOTransportHTTP2Posix

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// A machine whose actions are recorded as short words.
struct Story {
  var machine: ChannelMachine
  /// Seconds since the beginning.
  var now = 0.0
  private let start = ContinuousClock.now
  /// The calls that have to wait for connectivity, as reported, in order.
  private var told: [UInt64] = []

  init(_ backoff: HTTP2ClientTransport.Config.Backoff = .defaults) {
    self.machine = ChannelMachine(backoff)
  }

  var instant: ContinuousClock.Instant { self.start + .seconds(self.now) }

  mutating func after(_ seconds: Double) { self.now += seconds }

  mutating func call(_ id: UInt64, forReady: Bool = false) -> [String] {
    self.words(self.machine.wait(id, forReady: forReady, now: self.instant))
  }
  mutating func connected(_ id: UInt64) -> [String] { self.words(self.machine.connected(id)) }
  mutating func failed(_ id: UInt64, atOnce: Bool = false, random: Double = 0) -> [String] {
    self.words(
      self.machine.failed(
        id, RPCError(code: .unavailable, message: "no"), atOnce: atOnce, now: self.instant,
        random: random))
  }
  mutating func failed(
    _ id: UInt64, refused: [UInt64], spared: Set<UInt64>
  ) -> [String] {
    let refusal = RPCError(code: .permissionDenied, message: "not here")
    return self.words(
      self.machine.failed(
        id, RPCError(code: .unavailable, message: "no"), atOnce: true,
        refused: Dictionary(uniqueKeysWithValues: refused.map { ($0, refusal) }), spared: spared,
        now: self.instant, random: 0))
  }
  mutating func lost(_ id: UInt64) -> [String] {
    self.words(self.machine.lost(id, now: self.instant))
  }
  mutating func closed(_ id: UInt64, wasUsed: Bool = true) -> [String] {
    self.words(self.machine.closed(id, wasUsed: wasUsed, now: self.instant))
  }
  mutating func suspend(_ id: UInt64, _ isSuspended: Bool) -> [String] {
    self.words(self.machine.suspend(id, isSuspended, now: self.instant))
  }
  mutating func invalidated(_ id: UInt64) -> [String] {
    self.words(self.machine.invalidated(id, now: self.instant))
  }
  mutating func pathSatisfied(isBusy: Bool = false) -> [String] {
    self.words(self.machine.pathSatisfied(isBusy: isBusy, now: self.instant))
  }
  mutating func wake(isBusy: Bool = false) -> [String] {
    self.words(self.machine.wake(isBusy: isBusy, now: self.instant))
  }
  mutating func recovered(_ id: UInt64) -> [String] { self.words(self.machine.recovered(id)) }
  mutating func holdCalls(_ id: UInt64) { self.machine.holdCalls(on: id, now: self.instant) }
  mutating func stalled(_ id: UInt64, isBusy: Bool) -> [String] {
    self.words(self.machine.stalled(id, isBusy: isBusy, now: self.instant))
  }
  mutating func silent(_ id: UInt64) -> [String] {
    self.words(self.machine.silent(id, isBusy: true, now: self.instant))
  }
  mutating func shutdown() -> [String] { self.words(self.machine.shutdown()) }

  /// Returns the calls that were reported to wait since the last time.
  mutating func newlyTold() -> [UInt64] {
    defer { self.told = [] }
    return self.told
  }

  private mutating func words(_ actions: [ChannelMachine.Action]) -> [String] {
    for case .tellWaiting(let calls) in actions { self.told += calls }
    return actions.compactMap { action in
      switch action {
      case .connect(let id, let duration): "connect \(id) \(duration / .seconds(1))"
      case .wake(let instant): "wake \(self.start.duration(to: instant) / .seconds(1))"
      case .resume(let calls, let id): calls.isEmpty ? nil : "resume \(calls) on \(id)"
      case .fail(let calls, let error): calls.isEmpty ? nil : "fail \(calls) \(error.code)"
      case .tellWaiting: nil
      case .retire(let id): "retire \(id)"
      case .report(let state): "\(state)"
      }
    }
  }
}
