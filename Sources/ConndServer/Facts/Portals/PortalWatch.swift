import CLinux
import ConnectivityRules
import Glibc
import Netlink

/// The captive portals that routers advertise and that systemd-networkd has learnt.
final class PortalWatch: FactSource {
  private let files: PortalFiles
  private let changes = FileWatch()
  /// The listener for advertisements, or `nil` without netlink or IPv6 in the kernel.
  private let advertisements = PortalListener()
  private var reported: [String: String] = [:]
  private var hasRead = false

  init(_ files: PortalFiles = PortalFiles()) { self.files = files }

  let timeout: Duration? = nil

  var descriptors: [pollfd] {
    [
      pollfd(readable: self.changes.fileDescriptor),
      pollfd(readable: self.advertisements?.fileDescriptor ?? -1),
    ]
  }

  func process() -> [FactUpdate] {
    let advertised = self.advertisements?.drain() ?? []
    let portals = self.readFiles()
    return advertised.map { .advertisement($0) } + (portals.map { [.portals($0)] } ?? [])
  }

  /// Returns the portals in the files, if they have changed.
  private func readFiles() -> [String: String]? {
    guard self.changes.clear() || !self.hasRead else { return nil }
    // The watch is set before reading, so that changes in between are reported.
    self.changes.watch(directory: self.files.directory)
    self.hasRead = true
    let portals = self.files.portals()
    defer { self.reported = portals }
    return portals == self.reported ? nil : portals
  }
}
