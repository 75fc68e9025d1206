import Connectivity

/// What is behind a link that looks like a cable, and shares a network of its own.
package struct Via: Hashable, Sendable {
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    /// One that is tethered by USB.
    case phone
  }

  package var kind: Kind
  /// It may be something else, which announces itself in the same way.
  package var isGuess: Bool

  package init(_ kind: Kind, isGuess: Bool) {
    self.kind = kind
    self.isGuess = isGuess
  }
}

extension LinkFacts {
  /// What is behind the link, by its driver and by what it announces itself as by USB; `nil` where nothing says that it is anything but
  /// what it looks like.
  package var via: Via? {
    guard case .medium(let evidence) = self.verdict, evidence.medium == .wired else { return nil }
    if let driver = self.device.driver, phoneDrivers.contains(driver) {
      return Via(.phone, isGuess: false)
    }
    guard let interface = self.device.usbInterface else { return nil }
    return tetheringInterfaces.contains(interface) ? Via(.phone, isGuess: true) : nil
  }
}

/// Drivers of nothing but phones (drivers/net/usb/ipheth.c).
private let phoneDrivers: Set<String> = ["ipheth"]

/// As what phones with Android announce a network that they share (RNDIS by wireless, and RNDIS over Ethernet; drivers/net/usb/rndis_host.c).
/// Routers in a stick do so, too. Others are no evidence: as 02/06/00 (ECM) and 02/0d/00 (NCM) announce themselves adapters and docks beside
/// phones, as 02/02/ff boards (RNDIS as drivers/usb/gadget/function/f_rndis.c has it).
private let tetheringInterfaces: Set<USBInterface> = [
  USBInterface(0xe0, 0x01, 0x03), USBInterface(0xef, 0x04, 0x01),
]
