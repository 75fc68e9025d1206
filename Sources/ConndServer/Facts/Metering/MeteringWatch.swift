import ConnectivityRules
import Glibc

/// The sources of costs: NetworkManager, which also checks connectivity, and networkd's leases.
final class MeteringWatch: FactSource {
  private let leases: LeaseFiles
  private let changes = FileWatch()
  private let manager = NetworkManagerWatch()
  private var reported = MeteringReports()
  private var toldChecks: [String: ConnectivityChecks] = [:]
  private var phones: Set<String>?

  init(_ leases: LeaseFiles = LeaseFiles()) { self.leases = leases }

  var descriptors: [pollfd] {
    [pollfd(readable: self.changes.fileDescriptor), self.manager.descriptor]
  }

  /// Zero if a removed link has changed the costs, so that they are read immediately.
  var timeout: Duration? {
    self.manager.reports == self.reported.manager ? self.manager.timeout : .zero
  }

  func process() -> [FactUpdate] {
    self.manager.process()
    let phones = self.readPhones()
    let reports = MeteringReports(manager: self.manager.reports, phones: phones)
    var updates: [FactUpdate] = []
    if reports != self.reported { updates.append(.metering(reports)) }
    if self.manager.checks != self.toldChecks { updates.append(.checks(self.manager.checks)) }
    (self.reported, self.toldChecks) = (reports, self.manager.checks)
    return updates
  }

  func noteLinks() -> [FactUpdate] {
    self.manager.noteLinks()
    return []
  }

  func settle(within time: Duration) {
    let end = ContinuousClock.now.advanced(by: time)
    while !self.manager.isSettled {
      let left = ContinuousClock.now.duration(to: end)
      guard left > .zero else { return }
      var descriptor = self.manager.descriptor
      poll(&descriptor, 1, min(left, self.manager.timeout ?? left).pollTimeout)
      self.manager.process()
    }
  }

  private func readPhones() -> Set<String> {
    if !self.changes.clear(), let phones = self.phones { return phones }
    // The watch is set before reading, so that changes in between are reported.
    self.changes.watch(directory: self.leases.directory)
    let phones = self.leases.phones()
    self.phones = phones
    return phones
  }
}
