import Connectivity
import ServiceLifecycle
import Systemd

/// Tells systemd how connd does (D1): that it is ready once the kernel was read and the socket accepts, and from then on
/// in one line what is the case.
struct Announcer: Service {
  let store: Store
  let monitor: Monitor
  let notifier: Notifier
  let reloading: ReloadState
  /// Returns when the socket accepts connections.
  let listening: @Sendable () async -> Void

  func run() async throws {
    await self.listening()
    await self.monitor.firstReading()
    let news = self.store.observe()
    var told = self.status
    self.notifier.ready(status: told)
    await withGracefulShutdownHandler {
      for await _ in news.stream {
        let status = self.status
        if status != told { self.notifier.status(status) }
        told = status
      }
    } onGracefulShutdown: {
      self.notifier.stopping(status: "stopping")
      news.continuation.finish()
    }
    try? await gracefulShutdown()
  }

  /// `wifi via wlan0, 3 subscribers`
  private var status: String {
    let status = self.store.snapshot.status
    let via = status.interface.map { " via \($0)" } ?? ""
    let count = self.store.subscribers
    let subscribers = count == 1 ? "1 subscriber" : "\(count) subscribers"
    return "\(status.category.rawValue)\(via), \(subscribers)" + self.reloading.complaint
  }
}
