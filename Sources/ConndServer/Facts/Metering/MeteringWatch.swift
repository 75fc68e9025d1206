import ConnectivityRules
import Glibc

/// The interface to the sources of link costs other than the kernel. Owned by the monitor thread.
protocol MeteringSource {
  /// The descriptors for poll(2).
  var descriptors: [pollfd] { get }
  /// When to continue even if no descriptor is ready, or `nil` for never.
  var timeout: Duration? { get }

  /// Processes messages, up to the limit for one turn.
  ///
  /// - Returns: The costs of links, or `nil` if they have not changed.
  func process() -> MeteringWords?

  /// Notes that links have changed in the kernel, so that a missing source may be there now.
  func noteLinks()

  /// Waits up to a time limit until the sources have answered. Otherwise a starting connd might
  /// take a link for metered, or unmetered, against their answer.
  func settle(within time: Duration)
}

/// NetworkManager and the leases of systemd-networkd.
final class MeteringWatch: MeteringSource {
  private let leases: LeaseFiles
  private let changes = FileWatch()
  private let manager = NetworkManagerWatch()
  private var told = MeteringWords()
  private var phones: Set<String>?

  init(_ leases: LeaseFiles = LeaseFiles()) { self.leases = leases }

  var descriptors: [pollfd] {
    [
      pollfd(fd: self.changes.fileDescriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: self.manager.fileDescriptor, events: self.manager.events, revents: 0),
    ]
  }

  /// Zero if a removed link has changed the costs, so that they are read immediately.
  var timeout: Duration? {
    self.manager.words == self.told.manager ? self.manager.timeout : .zero
  }

  func process() -> MeteringWords? {
    self.manager.process()
    let phones = self.readPhones()
    let words = MeteringWords(manager: self.manager.words, phones: phones)
    guard words != self.told else { return nil }
    self.told = words
    return words
  }

  func noteLinks() { self.manager.noteLinks() }

  func settle(within time: Duration) {
    let end = ContinuousClock.now.advanced(by: time)
    while !self.manager.isSettled {
      let left = ContinuousClock.now.duration(to: end)
      guard left > .zero else { return }
      var descriptor = pollfd(
        fd: self.manager.fileDescriptor, events: self.manager.events, revents: 0)
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
