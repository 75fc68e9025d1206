import Connectivity
import ConnectivityRules

/// The last nl80211 answers about links. An answer is valid until nl80211 sends a message about its
/// link.
///
/// Only complete answers are remembered. After an incomplete answer, the next step asks again.
/// Until then the link remains a Wi-Fi link with the same cost. The network counts as unknown
/// unless the incomplete answer names it, because new flows may be on another network (I4).
struct WirelessCache {
  private struct Known {
    /// The last complete answer, without the parts that have changed since, or `nil` if the link is
    /// not a Wi-Fi link.
    var full: WirelessLink?
    /// The state of the link, as far as it is known now.
    var link: WirelessLink?
    var state: State

    enum State { case full, incomplete, due }

    init(full: WirelessLink?) {
      (self.full, self.link, self.state) = (full, full, .full)
    }

    /// Creates the state after an incomplete answer that follows a complete one.
    init(incomplete heard: WirelessLink?, after full: WirelessLink?) {
      (self.full, self.state) = (full, .incomplete)
      if let last = full?.network, heard?.network?.isOther(than: last) ?? false {
        self.full = full.map { WirelessLink(role: $0.role) }
      }
      self.link = heard ?? self.full.map { WirelessLink(role: $0.role) }
      self.link?.accessPoint = self.full?.accessPoint
    }
  }

  private var links: [UInt32: Known] = [:]

  /// Returns a link with the facts from nl80211 added.
  mutating func describe(
    _ facts: LinkFacts, _ kernel: any Kernel
  ) throws(KernelUnavailable) -> LinkFacts {
    // A sandbox may hide sysfs, and sysfs may belong to another namespace. Then only nl80211 knows
    // about Wi-Fi.
    guard facts.link.kind == nil, facts.device.hasPhy80211 || facts.device == .unknown else {
      return facts
    }
    let known = try self.known(facts.link.index, kernel)
    var facts = facts
    facts.device.wireless = known.link
    return facts
  }

  private mutating func known(
    _ index: UInt32, _ kernel: any Kernel
  ) throws(KernelUnavailable) -> Known {
    let before = self.links[index]
    if let before, before.state != .due { return before }
    let known =
      switch try kernel.wirelessLink(index) {
      case .link(let link): Known(full: link)
      case .notWireless: Known(full: nil)
      case .incomplete(let link): Known(incomplete: link, after: before?.full)
      }
    self.links[index] = known
    return known
  }

  /// Returns the network that decides about the cost of a link: the last known network, until
  /// another network is known.
  func costNetwork(of link: UInt32) -> WirelessNetwork? { self.links[link]?.full?.network }

  /// Marks links with incomplete answers to be queried again.
  mutating func beginStep() {
    for (index, known) in self.links where known.state == .incomplete {
      self.links[index]?.state = .due
    }
  }

  /// Updates from a kernel message.
  mutating func note(_ event: KernelEvent) {
    switch event {
    case .wireless(let change): self.links[change.link]?.state = .due
    case .linkRemoved(let link): self.links[link.index] = nil
    case .overrun:
      // A link that is not a Wi-Fi link may be gone by now, and its entry is not needed.
      self.links = self.links.compactMapValues { known in
        guard known.full != nil else { return nil }
        var known = known
        known.state = .due
        return known
      }
    default: break
    }
  }
}
