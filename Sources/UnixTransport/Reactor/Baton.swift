import Glibc

/// A lock that one function takes and another releases.
final class Baton: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>

  init() {
    self.mutex = .allocate(capacity: 1)
    pthread_mutex_init(self.mutex, nil)
  }

  deinit {
    pthread_mutex_destroy(self.mutex)
    self.mutex.deallocate()
  }

  /// Returns whether the calling thread has it now.
  func take() -> Bool { pthread_mutex_trylock(self.mutex) == 0 }

  /// Waits until the calling thread has it.
  func await() { pthread_mutex_lock(self.mutex) }

  func pass() { pthread_mutex_unlock(self.mutex) }
}
