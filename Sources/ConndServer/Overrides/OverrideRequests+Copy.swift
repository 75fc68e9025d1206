import ConnectivityRules

extension OverrideRequests {
  /// Returns overrides for a second connd on this machine, which does not get the machine's key.
  ///
  /// Overrides for networks that the machine is not on are left out, because their hash cannot be
  /// computed, unless the user wrote the network's name.
  ///
  /// - Parameters:
  ///   - user: The user that set the overrides to return, or `nil` for the overrides of all users.
  ///   - key: The other connd's key.
  func copy(
    of user: UInt32?, key: NetworkKey = NetworkKey()
  ) throws(CostRequest.Refusal) -> OverrideFile.Contents {
    let current: [(old: NetworkHash, new: NetworkHash)]
    do throws(KernelUnavailable) {
      var renamed = self.queries
      renamed.reader.networkKey = key
      current = zip(try self.queries.presentNetworks(), try renamed.presentNetworks()).map {
        ($0.hash, $1.hash)
      }
    } catch {
      throw .kernel(error)
    }
    var copies: [CostOverrides.Subject: CostOverride] = [:]
    for (subject, override) in self.costs.overrides.all where [nil, override.user].contains(user) {
      guard let subject = self.copy(subject, override, key, current) else { continue }
      copies[subject] = override.withoutBoot
    }
    return OverrideFile.Contents(key: key, overrides: CostOverrides(copies))
  }

  private func copy(
    _ subject: CostOverrides.Subject, _ override: CostOverride, _ key: NetworkKey,
    _ current: [(old: NetworkHash, new: NetworkHash)]
  ) -> CostOverrides.Subject? {
    guard case .network(let hash) = subject else { return subject }
    let named = override.name.map { zip(self.costs.key.hashes(ofName: $0), key.hashes(ofName: $0)) }
    return (current + (named.map(Array.init) ?? [])).first { $0.old == hash }.map {
      .network($0.new)
    }
  }
}

extension CostOverride {
  /// The override without an end at the next boot. The copy does not outlive this boot, and a
  /// sandbox may hide the boot's ID.
  fileprivate var withoutBoot: CostOverride {
    var copy = self
    if copy.constrained?.end == .boot { copy.constrained?.end = nil }
    if copy.expensive?.end == .boot { copy.expensive?.end = nil }
    if copy.assist?.end == .boot { copy.assist?.end = nil }
    return copy
  }
}
