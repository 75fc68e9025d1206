#if os(Linux)
  private import CLinux
#endif
#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// A separate thread for blocking system calls, which must not occupy a thread of Swift's pool.
package enum Thread {
  /// The processor time of the calling thread, by which turns are charged. By wall-clock time, a
  /// user would pay if the kernel interrupts that user's turn.
  package static var worked: Duration {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }

  /// Runs `body` on a new thread.
  ///
  /// - Parameter name: The name that the system shows for the thread, up to 15 bytes.
  /// - Returns: Whether a thread could be created. If not, nothing runs.
  package static func start(named name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
    final class Body: Sendable {
      let name: String
      let run: @Sendable () -> Void
      init(_ name: String, _ run: @escaping @Sendable () -> Void) {
        self.name = name
        self.run = run
      }
    }
    let retained = Unmanaged.passRetained(Body(name, body))
    #if canImport(Glibc)
      var thread = pthread_t()
    #else
      var thread: pthread_t?
    #endif
    let result = pthread_create(
      &thread, nil,
      { argument in
        let argument: UnsafeMutableRawPointer? = argument
        guard let argument else { return nil }
        let body = Unmanaged<Body>.fromOpaque(argument).takeRetainedValue()
        #if os(Linux)
          clinux_name_thread(body.name)
        #endif
        body.run()
        return nil
      }, retained.toOpaque())
    guard result == 0 else {
      retained.release()
      return false
    }
    #if canImport(Glibc)
      pthread_detach(thread)
    #else
      if let thread { pthread_detach(thread) }
    #endif
    return true
  }
}
