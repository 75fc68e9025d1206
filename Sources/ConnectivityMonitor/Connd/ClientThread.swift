import LinuxSupport

#if os(Linux)
  package import UnixTransport
  private import Synchronization
#endif

/// The single thread for all of a process's connections to connd.
///
/// Monitors and guards continue even if the application blocks its threads, including those of NIO
/// and of Swift's pool.
///
/// Only Linux has connd. On other systems, tasks run on Swift's pool.
package final class ClientThread: Sendable {
  #if os(Linux)
    private let running: Mutex<Reactor?>

    /// The reactor that the thread runs. The first use starts the thread.
    ///
    /// - Throws: ``ConndError/Code/failed`` if no descriptors or threads are left. A later use
    ///   tries again.
    package var reactor: Reactor {
      get throws(ConndError) {
        try self.running.withLock { (running) throws(ConndError) in
          if let reactor = running { return reactor }
          do throws(SystemError) {
            let reactor = try Reactor.onNewThread(named: "connd-client")
            running = reactor
            return reactor
          } catch {
            throw .failed("no thread for connd could be started: \(error)")
          }
        }
      }
    }

    /// - Parameter reactor: A running reactor. If `nil`, the first use starts a thread.
    package init(_ reactor: Reactor? = nil) { self.running = Mutex(reactor) }

    /// The executor for tasks on the thread, or `nil` if the thread cannot be started.
    package var executor: (any TaskExecutor)? { try? self.reactor }

    /// Returns after a duration of the machine's uptime.
    package func sleep(for duration: Duration) async throws(CancellationError) {
      if let reactor = try? self.reactor { return try await reactor.sleep(for: duration) }
      try await Self.sleepAnywhere(for: duration)
    }
  #else
    package init() {}

    package var executor: (any TaskExecutor)? { nil }

    package func sleep(for duration: Duration) async throws(CancellationError) {
      try await Self.sleepAnywhere(for: duration)
    }
  #endif

  /// Pending work that can be cancelled.
  package struct Timer: Sendable {
    package let cancel: @Sendable () -> Void

    package init(cancel: @escaping @Sendable () -> Void) { self.cancel = cancel }
  }

  /// A function that runs work after a duration.
  package typealias TimerStart =
    @Sendable (_ duration: Duration, _ work: @escaping @Sendable () -> Void) -> Timer

  /// Runs work on the thread after a duration.
  package func timer(after duration: Duration, _ work: @escaping @Sendable () -> Void) -> Timer {
    let task = Task(executorPreference: self.executor) {
      try? await self.sleep(for: duration)
      if !Task.isCancelled { work() }
    }
    return Timer { task.cancel() }
  }

  private static func sleepAnywhere(for duration: Duration) async throws(CancellationError) {
    do {
      try await Task.sleep(for: duration)
    } catch {
      throw CancellationError()
    }
  }
}
