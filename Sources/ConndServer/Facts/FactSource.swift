import Connectivity
import ConnectivityRules
import Glibc
import LinuxSupport
import Netlink

/// A source of facts that the kernel does not know, such as NetworkManager. Owned by the monitor
/// thread. Never blocks, except in ``settle(within:)``.
protocol FactSource {
  /// The descriptors for poll(2). A descriptor of -1 is ignored.
  var descriptors: [pollfd] { get }
  /// When to call ``process()`` even if no descriptor is ready, or `nil` for never.
  var timeout: Duration? { get }

  /// Processes what has arrived, up to the limit for one turn, and returns the facts that have
  /// changed.
  func process() -> [FactUpdate]

  /// Notes that links have changed in the kernel. A missing service may be available now, and a
  /// modem may have another link.
  func noteLinks() -> [FactUpdate]

  /// Waits up to a time limit until the source has answered. Otherwise connd might make a decision
  /// at startup that the answer contradicts.
  func settle(within time: Duration)

  /// The last known signal quality of modems in percent, by the names of their links. It changes
  /// all the time, so a change is not an update.
  var signalQualities: [String: UInt32] { get }
}

extension FactSource {
  func noteLinks() -> [FactUpdate] { [] }
  func settle(within time: Duration) {}
  var signalQualities: [String: UInt32] { [:] }
}

/// The sources of facts. Recordings refer to them by their order, so new sources come last.
enum FactSources {
  static func all(_ dnsFiles: DNSFiles, _ serialLines: SerialLines) -> [any FactSource] {
    [DNSWatch(dnsFiles), ModemWatch(serialLines), MeteringWatch(), PortalWatch()]
  }
}

/// Facts of one kind. They replace the earlier facts of the kind.
enum FactUpdate: Hashable, Sendable {
  case dns(DNSSettings)
  /// The links of modems by name.
  case modems([String: ModemLink])
  /// The costs of links.
  case metering(MeteringReports)
  /// NetworkManager's connectivity checks.
  case checks([String: ConnectivityChecks])
  /// The captive portals in the state files of systemd-networkd, by the names of links.
  case portals([String: String])
  /// A router's advertisement of a captive portal.
  case advertisement(PortalAdvertisement)
}
