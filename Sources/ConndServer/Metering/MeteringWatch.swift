import ConnectivityRules
import Glibc

/// The seam to what knows of links' costs beside the kernel. Owned by the monitor's thread; nothing here waits.
protocol MeteringSource {
  /// To be waited for with poll(2).
  var descriptors: [pollfd] { get }
  /// After what time to go on although the descriptors say nothing; `nil`: not at all.
  var timeout: Duration? { get }

  /// Deals with what was told, as much of it as is good for one turn.
  ///
  /// - Returns: what is said of links; `nil` where that is what was said last.
  func process() -> MeteringWords?

  /// The kernel has told of links: what was not there may be.
  func noteLinks()

  /// Waits, for this long at most, until what is there by now has said what it has to say: who starts anew is not to take a link for one
  /// that costs something, or nothing, of which the opposite was said.
  func settle(within time: Duration)
}

/// NetworkManager, and the leases of systemd-networkd.
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

  /// At once, where a link that is gone has changed what is said.
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
    // First the watch: what changes in between is told.
    self.changes.watch(directory: self.leases.directory)
    let phones = self.leases.phones()
    self.phones = phones
    return phones
  }
}
