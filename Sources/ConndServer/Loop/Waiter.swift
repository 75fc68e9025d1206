import Connectivity
import Glibc

/// Waits for the events that the monitor loop handles: kernel messages, submitted inputs, facts,
/// the machine's resume, or a deadline. Without any of them it does not wake (D7).
struct Waiter {
  let wakeUp: WakeUp
  private var sleep = SleepWatch()

  init(_ wakeUp: WakeUp) {
    self.wakeUp = wakeUp
  }

  /// The reasons why a wait ended, apart from inputs and deadlines.
  struct Woken {
    var hasMessages = false
    /// The sources that may have new facts.
    var sources = SourceSet()
    /// How long the machine slept during the wait, or `nil` if it did not.
    var slept: Duration?
  }

  /// - Parameters:
  ///   - kernel: The descriptor for kernel messages, or -1 for none.
  ///   - due: When to return even without an event.
  mutating func wait(
    for kernel: CInt, _ sources: [any FactSource] = [], until due: Instant?
  ) -> Woken {
    var descriptors = [
      pollfd(readable: self.wakeUp.fileDescriptor), pollfd(readable: kernel),
      pollfd(readable: self.sleep.fileDescriptor),
    ]
    var owners: [Int] = []
    descriptors.reserveCapacity(8)
    owners.reserveCapacity(5)
    for (index, source) in sources.enumerated() {
      let own = source.descriptors
      descriptors += own
      owners += own.map { _ in index }
    }
    let timeout = due.map { Instant.now().duration(to: $0).pollTimeout } ?? -1
    // On an error such as EINTR, no descriptor is ready.
    let isReady = poll(&descriptors, nfds_t(descriptors.count), timeout) > 0
    var woken = Woken(slept: self.sleep.check())
    guard isReady else { return woken }
    if descriptors[0].revents != 0 { self.wakeUp.clear() }
    woken.hasMessages = descriptors[1].revents != 0
    if descriptors[2].revents != 0 { self.sleep.rearm() }
    for (owner, descriptor) in zip(owners, descriptors.dropFirst(3)) where descriptor.revents != 0 {
      woken.sources.insert(SourceSet(index: owner))
    }
    return woken
  }
}

extension pollfd {
  /// Creates the entry for a descriptor that is read; -1 for none.
  init(readable fileDescriptor: CInt) {
    self.init(fd: fileDescriptor, events: Int16(POLLIN), revents: 0)
  }
}
