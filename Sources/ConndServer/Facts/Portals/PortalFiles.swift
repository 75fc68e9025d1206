import Connectivity
import ConnectivityRules
import LinuxSupport
import Netlink

/// The captive portals in the state files of systemd-networkd, which contain them since version 254
/// (networkd-state-file.c).
struct PortalFiles {
  /// The prefix of all paths. Empty outside of tests.
  var root = ""
  var files: any FileReader = MachineFiles()

  var directory: String { self.root + "/run/systemd/netif/links" }

  /// Returns the URIs by the names of links.
  func portals() -> [String: String] {
    let files = self.files.networkdFiles(in: self.directory)
    let portals = files.compactMap { link, text in
      networkdValue(of: "CAPTIVE_PORTAL", in: text).flatMap(PortalAdvertisement.uri)
        .map { (link, $0) }
    }
    return Dictionary(portals) { first, _ in first }
  }
}
