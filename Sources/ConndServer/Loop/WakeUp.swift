import CLinux
import Glibc
import LinuxSupport

/// Wakes the monitor thread from its poll, with an eventfd(2). Safe to use from any thread.
final class WakeUp: Sendable {
  let fileDescriptor: CInt

  init() throws(SystemError) {
    self.fileDescriptor = eventfd(0, CInt(EFD_CLOEXEC) | CInt(EFD_NONBLOCK))
    guard self.fileDescriptor >= 0 else { throw SystemError() }
  }

  deinit {
    close(self.fileDescriptor)
  }

  func signal() {
    // This fails only if the counter is full, and then the thread wakes anyway.
    eventfd_write(self.fileDescriptor, 1)
  }

  func clear() {
    var count: eventfd_t = 0
    eventfd_read(self.fileDescriptor, &count)
  }
}
