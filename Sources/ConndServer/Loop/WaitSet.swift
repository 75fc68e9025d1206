import CLinux
import Glibc

/// Several descriptors that are waited for as one (epoll(7)).
final class WaitSet {
  /// Becomes readable when one of the descriptors does.
  let fileDescriptor: CInt

  /// Creates the set, or returns `nil` if the process has reached its limit of descriptors.
  init?(_ descriptors: [CInt]) {
    self.fileDescriptor = epoll_create1(CInt(EPOLL_CLOEXEC))
    guard self.fileDescriptor >= 0 else { return nil }
    for descriptor in descriptors {
      var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(fd: descriptor))
      guard epoll_ctl(self.fileDescriptor, EPOLL_CTL_ADD, descriptor, &event) == 0 else {
        close(self.fileDescriptor)
        return nil
      }
    }
  }

  deinit { close(self.fileDescriptor) }
}
