internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix

/// The progress of an attempt to connect: the lookup of the name, and the races of its addresses.
///
/// After a change of the network, the channel tries the name's last addresses if no name server
/// answers soon. Later it also tries the addresses of the answer that are new (C5).
struct AttemptProgress {
  typealias Addresses = Resolution.Addresses

  /// The addresses that the channel tries without the resolver's answer, until they fail.
  var tried: Addresses = []
  /// The number of races that have not ended.
  var races = 0
  /// The resolver's error, or `nil` without one.
  var failure: RPCError?
  /// When the name's last addresses were tried.
  private var lastFormer: ContinuousClock.Instant?
  private var hasAddresses = false
  private var tries: [Channel.Try] = []

  /// Whether the resolver has answered.
  var isResolved: Bool { self.hasAddresses || self.failure != nil }

  /// How often the name's last addresses are tried while no name server answers, unless the network
  /// changes in between. A guess: gRPC's first backoff.
  static let minPause = Duration.seconds(1)

  /// Notes the begin of a race to the name's last addresses, and returns whether it may begin.
  mutating func begin(
    _ former: Addresses, _ lastChange: ContinuousClock.Instant?, at now: ContinuousClock.Instant
  ) -> Bool {
    let isRepeated = self.lastFormer.map { last in
      now - last < Self.minPause && lastChange.map { $0 <= last } ?? true
    }
    guard self.races == 0, isRepeated != true else { return false }
    (self.tried, self.lastFormer) = (former, now)
    self.races += 1
    return true
  }

  /// Notes the resolver's answer, and returns the addresses to try, or `nil` if all of them are
  /// being tried.
  mutating func resolved(_ addresses: Addresses) -> Addresses? {
    self.hasAddresses = true
    let new = addresses.filter { !self.tried.contains($0) }
    return new.isEmpty && !self.tried.isEmpty ? nil : new
  }

  /// Notes that a race has ended.
  mutating func ended(_ tries: [Channel.Try]) {
    self.races -= 1
    self.tries += tries
    // Failed addresses may be tried again.
    if self.races == 0 { self.tried = [] }
  }

  /// The result of the attempt, or `nil` while the attempt continues.
  var result: Result<[Channel.Try], RPCError>? {
    guard self.races == 0 else { return nil }
    let wasConnected = self.tries.contains { one in
      if case .over = one.outcome { true } else { false }
    }
    if self.hasAddresses || wasConnected { return .success(self.tries) }
    return self.failure.map { .failure($0) }
  }
}
