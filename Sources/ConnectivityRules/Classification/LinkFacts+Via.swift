package import Connectivity

/// Implements rule K5.
extension LinkFacts {
  /// The device behind the link, from its driver and its USB interface, or `nil` if nothing
  /// suggests one.
  package var via: Via? {
    guard case .medium(let evidence) = self.verdict, evidence.medium == .wired else { return nil }
    if let driver = self.device.driver, phoneDrivers.contains(driver) {
      return Via(.phone, isGuess: false)
    }
    guard let interface = self.device.usbInterface else { return nil }
    return tetheringInterfaces.contains(interface) ? Via(.phone, isGuess: true) : nil
  }
}

/// Drivers that only phones use (drivers/net/usb/ipheth.c).
private let phoneDrivers: Set<String> = ["ipheth"]

/// The USB interfaces by which Android phones announce a shared network (wireless RNDIS and RNDIS
/// over Ethernet; drivers/net/usb/rndis_host.c). USB routers use them too. Other interfaces are not
/// evidence: adapters and docks also use 02/06/00 (ECM) and 02/0d/00 (NCM), and boards use 02/02/ff
/// (RNDIS in drivers/usb/gadget/function/f_rndis.c).
private let tetheringInterfaces: Set<USBInterface> = [
  USBInterface(0xe0, 0x01, 0x03), USBInterface(0xef, 0x04, 0x01),
]
