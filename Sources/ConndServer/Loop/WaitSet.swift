import CLinux
import Glibc

/// Several descriptors that are waited for as one (epoll(7)).
final class WaitSet {
  /// Becomes readable when one of the descriptors does.
  let fileDescriptor: CInt

  /// Creates the set, or returns `nil` if a descriptor cannot be waited for, or none is left.
  init?(_ descriptors: [CInt]) {
    let set = epoll_create1(CInt(EPOLL_CLOEXEC))
    guard set >= 0 else { return nil }
    self.fileDescriptor = set
    for descriptor in descriptors {
      var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(fd: descriptor))
      // `deinit` closes the set, even if this returns `nil`.
      guard epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0 else { return nil }
    }
  }

  deinit { close(self.fileDescriptor) }
}
