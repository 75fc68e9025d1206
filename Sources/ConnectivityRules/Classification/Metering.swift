import Connectivity

/// Whether what is sent is paid for by use: the five states of NetworkManager (`NMMetered`).
package enum Metering: String, Hashable, Sendable, CaseIterable {
  case unknown
  /// Somebody says so who knows.
  case yes, no
  /// Something speaks for it.
  case guessYes, guessNo
}

/// What others than the kernel say of links' costs, by the links' names.
package struct MeteringWords: Hashable, Sendable {
  /// What NetworkManager says; not of links that it says nothing of.
  package var manager: [String: Metering]
  /// The links whose DHCP server has said that it is a phone that pays by use (option 43, `ANDROID_METERED`).
  package var phones: Set<String>

  package init(manager: [String: Metering] = [:], phones: Set<String> = []) {
    self.manager = manager
    self.phones = phones
  }

  package var isEmpty: Bool { self.manager.isEmpty && self.phones.isEmpty }
}

/// What is held of a path's cost, and on whose word.
package struct CostEvidence: Hashable, Sendable {
  /// The most trusted first.
  package enum Source: String, Hashable, Sendable, CaseIterable {
    case configuration
    /// Who uses the machine has said so.
    case user
    case networkManager
    /// Cellular, and Bluetooth, which is a phone's.
    case medium
    /// The network cost element of Wi-Fi's access point.
    case accessPoint
    /// That of nothing but phones, or as what the device announces itself by USB: phones do, and others.
    case driver
    /// A lease.
    case dhcp
    /// What was known before its uplink went, of a tunnel with nothing known below it.
    case lastKnown
    /// Nothing says anything.
    case none
  }

  package var state: Metering
  package var source: Source

  package init(_ state: Metering, _ source: Source) {
    self.state = state
    self.source = source
  }

  /// A guess by what a device announces costs nothing: it would keep programs from a network that is free. NetworkManager's rests on a phone, a modem or
  /// an access point that has said so.
  package var isExpensive: Bool {
    self.state == .yes || self.state == .guessYes && self.source == .networkManager
  }
}

extension PathClassifier {
  /// Whether sending by these links is paid for by use, on the first word there is in the order of the sources.
  func costEvidence(
    of chain: [LinkFacts], medium: Medium, saidByConfiguration: Bool?, saidByUser: Bool?
  ) -> CostEvidence {
    if let said = saidByConfiguration { return CostEvidence(said ? .yes : .no, .configuration) }
    if let said = saidByUser { return CostEvidence(said ? .yes : .no, .user) }
    let words = self.metering
    let manager =
      words.manager.isEmpty ? [] : chain.compactMap { words.manager[$0.link.name] }
    // In NetworkManager a person has said it of the connection.
    if let said = manager.first(where: { $0 == .yes || $0 == .no }) {
      return CostEvidence(said, .networkManager)
    }
    if medium == .cellular || medium == .bluetooth { return CostEvidence(.yes, .medium) }
    if chain.contains(where: \.device.isMetered) { return CostEvidence(.yes, .accessPoint) }
    let vias = chain.lazy.compactMap(\.via)
    if vias.contains(where: { !$0.isGuess }) { return CostEvidence(.yes, .driver) }
    if !words.phones.isEmpty, chain.contains(where: { words.phones.contains($0.link.name) }) {
      return CostEvidence(.yes, .dhcp)
    }
    if manager.contains(.guessYes) { return CostEvidence(.guessYes, .networkManager) }
    if vias.contains(where: \.isGuess) { return CostEvidence(.guessYes, .driver) }
    if manager.contains(.guessNo) { return CostEvidence(.guessNo, .networkManager) }
    let isUsuallyFree = medium == .wired || medium == .wifi || medium == .loopback
    return CostEvidence(isUsuallyFree ? .guessNo : .unknown, .none)
  }
}
