import Connectivity
import Systemd
import UnixTransport

/// Reports connd's state to systemd (D1): readiness once the kernel was read and the socket accepts
/// connections, then a one-line status.
struct Announcer {
  let store: Store
  let monitor: Monitor
  let notifier: Notifier
  let reloading: ReloadState
  let reactor: Reactor
  /// Returns when the socket accepts connections.
  let listening: @Sendable () async -> Void

  /// Returns when the store finishes.
  func run() async {
    await self.listening()
    await self.monitor.firstReading()
    let news = self.store.observe()
    var reported = self.status
    self.notifier.ready(status: reported)
    var next = ContinuousClock.now
    var isDelayed = false
    for await _ in news.stream {
      let now = ContinuousClock.now
      if now >= next { isDelayed = false }
      let status = self.status
      guard status != reported, !isDelayed else { continue }
      if now < next {
        // Clients that connect and disconnect often must not keep connd and systemd busy.
        isDelayed = true
        self.wake(news.continuation, after: now.duration(to: next))
      } else {
        self.notifier.status(status)
        (reported, next) = (status, now.advanced(by: Self.pause))
      }
    }
  }

  /// The minimum time between two status lines.
  private static let pause = Duration.seconds(1)

  private func wake(_ news: AsyncStream<Void>.Continuation, after delay: Duration) {
    self.reactor.execute { self.reactor.execute(after: delay) { news.yield() } }
  }

  /// The status line, such as `wifi via wlan0, 3 subscribers`.
  private var status: String {
    let status = self.store.snapshot.status
    let via = status.interface.map { " via \($0)" } ?? ""
    let count = self.store.subscribers
    let subscribers = count == 1 ? "1 subscriber" : "\(count) subscribers"
    return "\(status.category.rawValue)\(via), \(subscribers)" + self.reloading.complaint
  }
}
