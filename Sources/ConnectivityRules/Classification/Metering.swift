package import Connectivity

/// The costs of links according to sources other than the kernel, by the links' names.
package struct MeteringReports: Hashable, Sendable {
  /// NetworkManager's answers, without links of unknown cost.
  package var manager: [String: Metering]
  /// The links with a phone as DHCP server that has a metered connection (option 43,
  /// `ANDROID_METERED`).
  package var phones: Set<String>

  package init(manager: [String: Metering] = [:], phones: Set<String> = []) {
    self.manager = manager
    self.phones = phones
  }

  package var isEmpty: Bool { self.manager.isEmpty && self.phones.isEmpty }
}

/// Implements rule I8.
extension CostEvidence {
  /// Whether the path counts as metered, or `nil` if unknown. A guess from a device's USB interface
  /// does not count, because a wrong guess would keep programs from an unmetered network. A guess
  /// of NetworkManager counts, because a phone, a modem or an access point caused it.
  package var isExpensive: Bool? {
    self.state == .unknown
      ? nil : self.state == .yes || self.state == .guessYes && self.source == .networkManager
  }
}

extension PathClassifier {
  /// Returns the cost according to the first source that has an answer.
  func costEvidence(
    of chain: [LinkFacts], medium: NetworkMedium, statedByConfiguration: Bool?, statedByUser: Bool?
  ) -> CostEvidence {
    if let stated = statedByConfiguration {
      return CostEvidence(stated ? .yes : .no, .configuration)
    }
    if let stated = statedByUser { return CostEvidence(stated ? .yes : .no, .user) }
    let text = self.metering
    let manager =
      text.manager.isEmpty ? [] : chain.compactMap { text.manager[$0.link.name] }
    // `yes` and `no` are a user's setting for the connection in NetworkManager, not a guess.
    if let stated = manager.first(where: { $0 == .yes || $0 == .no }) {
      return CostEvidence(stated, .networkManager)
    }
    let isMetered = medium.traits.isMetered
    if isMetered == true { return CostEvidence(.yes, .medium) }
    if chain.contains(where: \.device.isMetered) { return CostEvidence(.yes, .accessPoint) }
    let vias = chain.lazy.compactMap(\.via)
    if vias.contains(where: { !$0.isGuess }) { return CostEvidence(.yes, .driver) }
    if !text.phones.isEmpty, chain.contains(where: { text.phones.contains($0.link.name) }) {
      return CostEvidence(.yes, .dhcp)
    }
    if manager.contains(.guessYes) { return CostEvidence(.guessYes, .networkManager) }
    if vias.contains(where: \.isGuess) { return CostEvidence(.guessYes, .driver) }
    if manager.contains(.guessNo) { return CostEvidence(.guessNo, .networkManager) }
    return CostEvidence(isMetered == false ? .guessNo : .unknown, .none)
  }
}
