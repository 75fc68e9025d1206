import Connectivity
import ConnectivityRules

/// The links that are a modem's, by what ModemManager says, or by the driver of a serial line.
///
/// What was said of a link once stays true as long as the link exists: behind it is a modem, also when the service ends or is
/// updated, and when pppd has hung up and waits for traffic. A value.
struct KnownModems {
  /// As it is said now, by name.
  private var links: [String: ModemLink] = [:]
  /// The links of which it was ever said, each with the operator that was named last: what a network costs is what it cost, until
  /// it is known that it is another.
  private var known: [UInt32: MobileOperator?] = [:]
  /// The drivers of the serial lines of ppp links.
  private var lines: [UInt32: String] = [:]

  /// A machine has a handful.
  private static let most = 64

  /// - Parameter restored: What an earlier run published last: its evidence goes on to hold.
  init(restored: Snapshot? = nil) {
    for path in [restored?.status.ipv4, restored?.status.ipv6].compactMap({ $0 }) {
      guard let link = path.chain.last, let evidence = path.evidence else { continue }
      switch evidence.source {
      case .modemManager: self.known.updateValue(nil, forKey: link.index)
      // That of another device says nothing where it is taken for a line's.
      case .driver: self.lines[link.index] = evidence.value
      default: break
      }
    }
  }

  /// What becomes of a reading when ModemManager says this: one change after the other, for each has a cause of its own.
  func changes(to links: [String: ModemLink]) -> [ModemChange] {
    Set(links.keys).union(self.links.keys).sorted().compactMap { name in
      let (old, new) = (self.links[name] ?? .silent, links[name] ?? .silent)
      if old.isConnected != new.isConnected || self.links[name] == nil {
        return ModemChange(new.isConnected ? .connected : .disconnected, name)
      }
      if old.isSuspended != new.isSuspended {
        return ModemChange(new.isSuspended ? .suspended : .resumed, name)
      }
      // That it is not known for a while is no other.
      let isOther = new.mobileOperator.map { $0 != old.mobileOperator } ?? false
      return isOther ? ModemChange(.moved, name) : nil
    }
  }

  /// Takes in what ModemManager says.
  mutating func update(to links: [String: ModemLink]) { self.links = links }

  /// Takes in what it says of one link.
  mutating func update(_ interface: String, to link: ModemLink?) { self.links[interface] = link }

  /// A link, with what is known of its modem.
  mutating func describe(_ facts: LinkFacts) -> LinkFacts {
    self.describeByOwner(facts.link.kind == "ppp" ? self.describeByLine(facts) : facts)
  }

  private mutating func describeByLine(_ facts: LinkFacts) -> LinkFacts {
    var facts = facts
    if let driver = facts.device.serialDriver {
      if self.lines.count >= Self.most { self.lines = [:] }
      self.lines[facts.link.index] = driver
    } else if let driver = self.lines[facts.link.index] {
      facts.device.serialDriver = driver
    }
    return facts
  }

  private mutating func describeByOwner(_ facts: LinkFacts) -> LinkFacts {
    guard !self.links.isEmpty || !self.known.isEmpty else { return facts }
    let index = facts.link.index
    var facts = facts
    let before = self.known[index]
    if var modem = self.links[facts.link.name] {
      modem.mobileOperator = modem.mobileOperator ?? before ?? nil
      if self.known.count >= Self.most { self.known = [:] }
      self.known.updateValue(modem.mobileOperator, forKey: index)
      facts.modem = modem
    } else if let before {
      var modem = ModemLink.silent
      modem.mobileOperator = before
      facts.modem = modem
    }
    return facts
  }

  /// Takes note of what the kernel has told.
  mutating func note(_ event: KernelEvent) {
    guard case .linkRemoved(let link) = event else { return }
    self.known[link.index] = nil
    self.lines[link.index] = nil
  }
}
