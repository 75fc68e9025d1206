import Connectivity
import Glibc

/// Waits for the events that the monitor loop handles: kernel messages, submitted inputs, the
/// machine's resume, or a deadline. Without any of them it does not wake (D7).
struct Waiter {
  let wakeUp: WakeUp
  private var sleep = SleepWatch()

  init(_ wakeUp: WakeUp) {
    self.wakeUp = wakeUp
  }

  /// The reasons why a wait ended, apart from inputs and deadlines.
  struct Woken {
    var hasMessages: Bool
    /// Whether the DNS settings may have changed.
    var hasDNSNews = false
    /// Whether the modem source may have news.
    var hasModemNews = false
    /// Whether a cost source may have news.
    var hasMeteringNews = false
    /// How long the machine slept during the wait, or `nil` if it did not.
    var slept: Duration?
  }

  /// - Parameters:
  ///   - kernel: The descriptor for kernel messages, or -1 for none.
  ///   - dns: The descriptor for changes of DNS settings, or -1 for none.
  ///   - modems: The descriptor and events of the modem source.
  ///   - metering: The descriptors and events of the cost sources.
  ///   - due: When to return even without an event.
  mutating func wait(
    for kernel: CInt, dns: CInt = -1, modems: pollfd = pollfd(fd: -1, events: 0, revents: 0),
    metering: [pollfd] = [], until due: Instant?
  ) -> Woken {
    var descriptors = [
      pollfd(fd: self.wakeUp.fileDescriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: kernel, events: Int16(POLLIN), revents: 0),
      pollfd(fd: self.sleep.fileDescriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: dns, events: Int16(POLLIN), revents: 0),
      modems,
    ]
    let first = descriptors.count
    descriptors += metering
    let timeout = due.map { Instant.now().duration(to: $0).pollTimeout } ?? -1
    let count = poll(&descriptors, nfds_t(descriptors.count), timeout)
    let slept = self.sleep.check()
    if count > 0, descriptors[0].revents != 0 { self.wakeUp.clear() }
    if count > 0, descriptors[2].revents != 0 { self.sleep.rearm() }
    return Woken(
      hasMessages: count > 0 && descriptors[1].revents != 0,
      hasDNSNews: count > 0 && descriptors[3].revents != 0,
      hasModemNews: count > 0 && descriptors[4].revents != 0,
      hasMeteringNews: count > 0 && descriptors[first...].contains { $0.revents != 0 }, slept: slept
    )
  }
}
