import GRPCCore
import Glibc
import LinuxSupport
import Logging
import Synchronization
import Systemd
import UnixTransport

/// Runs connd's parts, and ends them in order on SIGTERM or SIGINT.
///
/// Implements rule D2.
final class Lifecycle: Sendable {
  /// How long connd waits for calls to end and for clients to disconnect. Clients can read their
  /// status later, because it is in their sockets.
  private static let maxFarewell = Duration.milliseconds(250)

  let server: GRPCServer<UnixServerTransport>
  let transport: UnixServerTransport
  let monitor: Monitor
  let store: Store
  let overrideStore: OverrideStore
  let announcer: Announcer
  let reporter: StatisticsReporter
  let reloader: Reloader
  let reactor: Reactor
  let logger: Logger
  private let isStopping = Atomic(false)

  init(
    server: GRPCServer<UnixServerTransport>, transport: UnixServerTransport, monitor: Monitor,
    store: Store, overrideStore: OverrideStore, announcer: Announcer,
    reporter: StatisticsReporter, reloader: Reloader, on reactor: Reactor, logger: Logger
  ) {
    (self.server, self.transport, self.monitor) = (server, transport, monitor)
    (self.store, self.overrideStore, self.announcer) = (store, overrideStore, announcer)
    (self.reporter, self.reloader, self.reactor) = (reporter, reloader, reactor)
    self.logger = logger
  }

  /// Returns when everything has ended. Must be called on the reactor's thread.
  func run() async throws {
    // Signals are caught before connd is ready, because an uncaught signal would end connd.
    try self.followSignals()
    Task(executorPreference: self.reactor) { await self.announcer.run() }
    async let monitoring: Void = self.monitor.run()
    let result: Result<Void, any Error>
    do { result = .success(try await self.serve()) } catch { result = .failure(error) }
    self.monitor.stop()
    await monitoring
    try result.get()
    self.overrideStore.finish()
    self.logger.info("stopped")
  }

  private func serve() async throws {
    // Until the first reading, clients wait in the listen backlog. connd answers "assume online"
    // only if the kernel cannot be read, not during startup (K8).
    await self.monitor.firstReading()
    if self.isStopping.load(ordering: .relaxed) { return }
    try await self.server.serve()
  }

  private func followSignals() throws(SystemError) {
    let hangups = self.each { await self.reloader.reload() }
    let requests = self.each { await self.reporter.log() }
    try self.reactor.follow([SIGTERM, SIGINT, SIGHUP, SIGUSR1]) { signal in
      switch signal {
      case SIGHUP: hangups.yield()
      case SIGUSR1: requests.yield()
      default: self.stop()
      }
    }
  }

  /// Runs `body` once for each yield to the returned continuation. As with signals, several pending
  /// yields count once.
  private func each(_ body: @escaping @Sendable () async -> Void) -> AsyncStream<Void>.Continuation
  {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    Task(executorPreference: self.reactor) { for await _ in stream { await body() } }
    return continuation
  }

  private func stop() {
    guard !self.isStopping.exchange(true, ordering: .relaxed) else { return }
    self.announcer.notifier.stopping(status: "stopping")
    // Subscriptions end first, because the server waits for them.
    self.store.finish()
    // Pending queries end without an answer, so that users with many calls cannot delay the exit.
    self.monitor.stop()
    // Some calls wait until their overrides are written, so the write must not block the thread
    // that serves calls.
    _ = Thread.start(named: "connd-overrides", self.overrideStore.finish)
    self.server.beginGracefulShutdown()
    // A suspended client never acknowledges the end, so connd does not wait for it.
    self.reactor.execute(after: Self.maxFarewell) {
      self.logger.info("some clients did not disconnect in time")
      self.transport.close(Status(RPCError.stopping))
    }
  }
}
