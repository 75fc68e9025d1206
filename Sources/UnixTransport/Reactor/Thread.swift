import CLinux
import Glibc

/// A thread of its own for what waits in a system call: that must not take one from Swift's pool.
package enum Thread {
  /// Runs `body` on a new thread.
  ///
  /// - Parameter name: What the system calls the thread, 15 octets of it.
  /// - Returns: Whether there was a thread to be had; else nothing was run.
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
    var thread = pthread_t()
    let result = pthread_create(
      &thread, nil,
      { argument in
        guard let argument else { return nil }
        let body = Unmanaged<Body>.fromOpaque(argument).takeRetainedValue()
        clinux_name_thread(body.name)
        body.run()
        return nil
      }, retained.toOpaque())
    guard result == 0 else {
      retained.release()
      return false
    }
    pthread_detach(thread)
    return true
  }
}
