import Connectivity
import ConnectivityRules

/// What nl80211 has said of links, which holds until it tells of them again. A value.
///
/// Only what it says in full is remembered. Where it could not be asked for all, it is asked once more with the next step, and until
/// then a link is what it was: it is one of Wi-Fi still, and costs what it cost. Which network it is in is another matter: what
/// begins meanwhile may be on another one (I4), and what is not known distinguishes nothing.
struct KnownWireless {
  private struct Known {
    /// The last full answer, without what is known to be otherwise by now; `nil` for what is no link of Wi-Fi.
    var full: WirelessLink?
    /// As far as it is known now.
    var link: WirelessLink?
    var state: State

    enum State { case full, incomplete, due }

    init(full: WirelessLink?) {
      (self.full, self.link, self.state) = (full, full, .full)
    }

    /// Of a link that could not be asked for all, after what was said of it in full before.
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

  /// A link, with what nl80211 says of it.
  mutating func describe(
    _ facts: LinkFacts, _ kernel: any Kernel
  ) throws(KernelUnavailable) -> LinkFacts {
    // A sandbox hides sysfs, and it may be another namespace's: then only nl80211 knows of Wi-Fi.
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

  /// The network by which it is known what a link costs: that which it was in last, until it is known that it is in another.
  func costNetwork(of link: UInt32) -> WirelessNetwork? { self.links[link]?.full?.network }

  /// What could not be asked is to be asked again.
  mutating func beginStep() {
    for (index, known) in self.links where known.state == .incomplete {
      self.links[index]?.state = .due
    }
  }

  /// Takes note of what the kernel has told.
  mutating func note(_ event: KernelEvent) {
    switch event {
    case .wireless(let change): self.links[change.link]?.state = .due
    case .linkRemoved(let link): self.links[link.index] = nil
    case .overrun:
      // Of what is no link of Wi-Fi, which may be gone by now, nothing is needed.
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
