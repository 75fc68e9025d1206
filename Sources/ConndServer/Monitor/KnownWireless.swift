import Connectivity
import ConnectivityRules

/// What nl80211 has said of links, which holds until it tells of them again. A value.
struct KnownWireless {
  /// `nil` for what is no link of Wi-Fi.
  private var links: [UInt32: WirelessLink?] = [:]

  /// A link, with what nl80211 says of it.
  mutating func describe(
    _ facts: LinkFacts, _ kernel: any Kernel
  ) throws(KernelUnavailable) -> LinkFacts {
    // A sandbox hides sysfs, and it may be another namespace's: then only nl80211 knows of Wi-Fi.
    guard facts.link.kind == nil, facts.device.hasPhy80211 || facts.device == .unknown else {
      return facts
    }
    let index = facts.link.index
    var facts = facts
    if let known = self.links[index] {
      facts.device.wireless = known
    } else {
      facts.device.wireless = try kernel.wirelessLink(index)
      self.links[index] = .some(facts.device.wireless)
    }
    return facts
  }

  /// Takes note of what the kernel has told.
  mutating func note(_ event: KernelEvent) {
    switch event {
    case .wireless(let change): self.links[change.link] = nil
    case .linkRemoved(let link): self.links[link.index] = nil
    case .overrun: self.links = [:]
    default: break
    }
  }
}
