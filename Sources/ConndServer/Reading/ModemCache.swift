import Connectivity
import ConnectivityRules

/// The links that belong to a modem, according to ModemManager or the driver of a serial line.
///
/// A link that was once known to be a modem counts as a modem as long as it exists. ModemManager
/// may stop or be updated, and pppd may hang up and wait for traffic.
///
/// Implements rule K5.
struct ModemCache {
  /// The current links of ModemManager, by name.
  private var links: [String: ModemLink] = [:]
  /// The last known technology of each modem, by the name of its link. While a modem searches for a
  /// network, ModemManager reports no technology.
  private var generations: [String: MobileGeneration] = [:]
  /// The links that ModemManager has ever named, each with its last known operator. The cost of
  /// that operator's network applies until another operator is known.
  private var known: [UInt32: MobileOperator?] = [:]
  /// The drivers of the serial lines of ppp links.
  private var lines: [UInt32: String] = [:]

  /// A machine has only a few modems. Beyond this number, all are forgotten and learnt again.
  private static let maxModems = 64

  /// - Parameter restored: The snapshot that an earlier run published last. Its evidence remains
  ///   valid.
  init(restored: ConnectivitySnapshot? = nil) {
    for path in [restored?.status.ipv4, restored?.status.ipv6].compactMap({ $0 }) {
      guard let link = path.chain.last, let evidence = path.evidence else { continue }
      switch evidence.source {
      case .modemManager: self.known.updateValue(nil, forKey: link.index)
      // Only ppp links use these entries, so the driver of another kind of device has no effect.
      case .driver: self.lines[link.index] = evidence.value
      default: break
      }
    }
  }

  /// Returns how new links of ModemManager differ from the current ones. Each change needs its own
  /// step, because each has its own cause.
  func changes(to links: [String: ModemLink]) -> [ModemChange] {
    Set(links.keys).union(self.links.keys).sorted().compactMap { name in
      let (old, new) = (self.links[name] ?? .silent, links[name] ?? .silent)
      if old.isConnected != new.isConnected || self.links[name] == nil {
        return ModemChange(new.isConnected ? .connected : .disconnected, name)
      }
      if old.isSuspended != new.isSuspended {
        return ModemChange(new.isSuspended ? .suspended : .resumed, name)
      }
      let last = self.generations[name]
      if ModemLink(generation: new.generation ?? last).isSlow
        != ModemLink(generation: last).isSlow
      {
        return ModemChange(.technologyChanged, name)
      }
      // An operator that is temporarily unknown does not count as a change.
      let isOther = new.mobileOperator.map { $0 != old.mobileOperator } ?? false
      return isOther ? ModemChange(.moved, name) : nil
    }
  }

  /// The links of ModemManager that are in another operator's network.
  var roaming: Set<String> { Set(self.links.lazy.filter(\.value.isRoaming).map(\.key)) }

  /// Replaces the links of ModemManager.
  mutating func update(to links: [String: ModemLink]) {
    self.links = links
    if self.generations.count >= Self.maxModems { self.generations = [:] }
    self.generations.merge(links.compactMapValues(\.generation)) { $1 }
  }

  /// Replaces one link of ModemManager.
  mutating func update(_ interface: String, to link: ModemLink?) {
    self.links[interface] = link
    if let generation = link?.generation { self.generations[interface] = generation }
  }

  /// Returns a link with the known facts about its modem.
  mutating func describe(_ facts: LinkFacts) -> LinkFacts {
    self.describeByOwner(facts.link.kind == "ppp" ? self.describeByLine(facts) : facts)
  }

  private mutating func describeByLine(_ facts: LinkFacts) -> LinkFacts {
    var facts = facts
    if let driver = facts.device.serialDriver {
      if self.lines.count >= Self.maxModems { self.lines = [:] }
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
      modem.generation = modem.generation ?? self.generations[facts.link.name]
      if self.known.count >= Self.maxModems { self.known = [:] }
      self.known.updateValue(modem.mobileOperator, forKey: index)
      facts.modem = modem
    } else if let before {
      var modem = ModemLink.silent
      modem.mobileOperator = before
      modem.generation = self.generations[facts.link.name]
      facts.modem = modem
    }
    return facts
  }

  /// Updates from a kernel message.
  mutating func note(_ event: KernelEvent) {
    guard case .linkRemoved(let link) = event else { return }
    self.known[link.index] = nil
    self.generations[link.name] = nil
    self.lines[link.index] = nil
  }
}
