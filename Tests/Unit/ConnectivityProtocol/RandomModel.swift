import Connectivity
import TestKit

/// Makes random model values, with optional fields present or absent.
struct RandomModel {
  var generator: SeededGenerator

  init(seed: UInt64) { self.generator = SeededGenerator(seed: seed) }

  mutating func bool() -> Bool { Bool.random(using: &self.generator) }

  mutating func any<T: CaseIterable>(_: T.Type) -> T {
    T.allCases.randomElement(using: &self.generator) ?? T.allCases[T.allCases.startIndex]
  }

  mutating func maybe<T>(_ make: (inout Self) -> T?) -> T? { self.bool() ? make(&self) : nil }

  mutating func word() -> String {
    ["", "wlan0", "vlan10", "ärger", "a b", "RTM_NEWLINK"].randomElement(using: &self.generator)
      ?? ""
  }

  mutating func address() -> IPAddress? {
    let count = self.bool() ? 4 : 16
    return IPAddress(
      bytes: (0..<count).map { _ in UInt8.random(in: 0...255, using: &self.generator) })
  }

  mutating func time() -> WallTime {
    WallTime(
      microseconds: .random(
        in: -4_000_000_000_000_000...4_000_000_000_000_000, using: &self.generator))
  }

  mutating func evidence() -> KernelPath.Evidence {
    KernelPath.Evidence(
      self.any(KernelPath.Evidence.Source.self), self.word(), self.any(NetworkMedium.self))
  }

  mutating func path() -> KernelPath {
    let chain = (0..<Int.random(in: 0...3, using: &self.generator)).map { _ in
      KernelPath.Link(index: .random(in: 0 ... .max, using: &self.generator), name: self.word())
    }
    var path = KernelPath(
      status: self.any(KernelPath.Status.self),
      reason: self.maybe { $0.any(KernelPath.Reason.self) },
      chain: chain,
      medium: self.any(NetworkMedium.self),
      evidence: self.maybe { $0.evidence() },
      source: self.maybe { $0.address() },
      sourcePrefixLength: self.maybe { Int.random(in: 0...128, using: &$0.generator) },
      gateway: self.maybe { $0.address() },
      table: self.maybe { UInt32.random(in: 0 ... .max, using: &$0.generator) },
      isExpensive: self.bool(), constraint: self.any(ConstraintLevel.self))
    path.guessedLinks = Int.random(in: 0...chain.count, using: &self.generator)
    if !path.isMetered, self.bool() { path.costsMoney = nil }
    path.quality = self.any(LinkQuality.self)
    path.objection = self.maybe { $0.any(OtherWay.Reason.self) }
    let state = self.any(KernelPath.Validation.State.self)
    if state != .unknown {
      path.validation = KernelPath.Validation(
        state, self.maybe { $0.any(KernelPath.Validation.Source.self) },
        portal: self.maybe { $0.word() })
    }
    return path
  }

  mutating func snapshot() -> ConnectivitySnapshot {
    ConnectivitySnapshot(
      generation: .random(in: 0..<1 << 53, using: &self.generator), since: self.time(),
      status: ConnectivityStatus(
        ipv4: self.path(), ipv6: self.path(), preferred: self.any(AddressFamily.self)),
      dns: self.maybe { $0.dns() })
  }

  mutating func dns() -> DNSSettings {
    func words(_ model: inout Self) -> [String] {
      (0..<Int.random(in: 0...2, using: &model.generator)).map { _ in model.word() }
    }
    func servers(_ model: inout Self) -> [DNSSettings.Server] {
      (0..<Int.random(in: 0...3, using: &model.generator)).compactMap { _ in
        model.address().map { .init($0, zone: model.bool() ? "wlan0" : nil) }
      }
    }
    let links = (0..<Int.random(in: 0...2, using: &self.generator)).map { _ in
      DNSSettings.Link(
        interface: self.word(), servers: servers(&self), search: words(&self))
    }
    return DNSSettings(servers: servers(&self), search: words(&self), links: links)
  }

  mutating func cause() -> ChangeCause {
    ChangeCause(
      self.any(ChangeCause.Trigger.self), self.word(), message: self.maybe { $0.word() },
      interface: self.maybe { $0.word() }, learntLate: self.bool())
  }

  mutating func scope() -> Invalidation.Scope {
    let addresses = (0..<Int.random(in: 1...3, using: &self.generator)).compactMap { _ in
      self.address()
    }
    return Invalidation.Scope(
      interface: self.maybe { $0.word() },
      family: self.maybe { $0.any(AddressFamily.self) },
      localAddresses: self.maybe { _ in addresses },
      destination: self.maybe { $0.bool() ? .offLink : $0.address().map { .address($0) } })
  }

  mutating func invalidation() -> Invalidation {
    Invalidation(
      generation: .random(in: 0..<1 << 53, using: &self.generator),
      reason: self.any(Invalidation.Reason.self), severity: self.any(Invalidation.Severity.self),
      scope: self.scope(), cause: self.cause(), time: self.time())
  }

  mutating func change() -> ConnectivityChange {
    switch Int.random(in: 0..<4, using: &self.generator) {
    case 0:
      .transition(
        ConnectivityChange.Transition(
          from: self.any(NetworkCategory.self), to: self.any(NetworkCategory.self),
          bounced: self.bool(),
          cause: self.cause(), time: self.time(), snapshot: self.snapshot()))
    case 1:
      .path(
        ConnectivityChange.PathChange(
          cause: self.cause(), time: self.time(), snapshot: self.snapshot()))
    case 2:
      .dns(
        ConnectivityChange.DNSChange(
          generation: .random(in: 0..<1 << 53, using: &self.generator), settings: self.dns(),
          cause: self.cause(), time: self.time()))
    default:
      .invalidation(self.invalidation())
    }
  }
}
