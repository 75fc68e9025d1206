import Connectivity
import Glibc

/// Waits for whatever the monitor's loop has to deal with: the kernel's messages, work that is handed over, the end of a
/// sleep of the machine, or a due time. Without any of them it does not wake (D7).
struct Waiter {
  let wakeUp: WakeUp
  private var sleep = SleepWatch()

  init(_ wakeUp: WakeUp) {
    self.wakeUp = wakeUp
  }

  /// What ended a wait, beside work and time.
  struct Woken {
    var hasMessages: Bool
    /// Names may be asked of others.
    var hasDNSNews = false
    /// What knows of modems may have said something.
    var hasModemNews = false
    /// What knows of links' costs may have said something.
    var hasMeteringNews = false
    /// For how long the machine slept meanwhile.
    var slept: Duration?
  }

  /// - Parameters:
  ///   - kernel: the descriptor that tells of messages; -1 for none.
  ///   - dns: the descriptor that tells that names may be asked of others; -1 for none.
  ///   - modems: what is to be waited for of what knows of modems.
  ///   - metering: the same of what knows of links' costs.
  ///   - due: when to return although nothing has happened.
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
