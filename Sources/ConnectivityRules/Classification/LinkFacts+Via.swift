import Connectivity

/// What is behind a link that looks like a cable, and shares a network of its own.
package struct Via: Hashable, Sendable {
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    /// One that is tethered by USB.
    case phone
  }

  package var kind: Kind
  /// It may be something else: adapters and boards have the same driver.
  package var isGuess: Bool

  package init(_ kind: Kind, isGuess: Bool) {
    self.kind = kind
    self.isGuess = isGuess
  }
}

extension LinkFacts {
  /// What is behind the link, by its driver; `nil` where nothing says that it is anything but what it looks like.
  package var via: Via? {
    guard case .medium(let evidence) = self.verdict, evidence.medium == .wired,
      let driver = self.device.driver
    else { return nil }
    if phoneDrivers.contains(driver) { return Via(.phone, isGuess: false) }
    return tetheringDrivers.contains(driver) ? Via(.phone, isGuess: true) : nil
  }
}

/// Drivers of nothing but phones (drivers/net/usb/ipheth.c).
private let phoneDrivers: Set<String> = ["ipheth"]

/// Drivers of what phones and others speak over USB (drivers/net/usb/rndis_host.c, cdc_ether.c).
private let tetheringDrivers: Set<String> = ["cdc_ether", "rndis_host"]
