import Logging
import Synchronization

/// Records log messages, one line each: level, text and metadata.
final class LogRecorder: Sendable {
  private struct State {
    var lines: [String] = []
    var waiters:
      [(isOver: @Sendable ([String]) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []
  }
  private let state = Mutex(State())

  var lines: [String] { self.state.withLock { $0.lines } }

  /// Waits until there are this many matching lines.
  func wait(times: Int = 1, for wants: @escaping @Sendable (String) -> Bool) async {
    await withCheckedContinuation { continuation in
      self.change { $0.waiters.append(({ $0.count(where: wants) >= times }, continuation)) }
    }
  }

  private func change(_ change: (inout State) -> Void) {
    let over = self.state.withLock { state in
      change(&state)
      let lines = state.lines
      defer { state.waiters.removeAll { $0.isOver(lines) } }
      return state.waiters.filter { $0.isOver(lines) }
    }
    for waiter in over { waiter.continuation.resume() }
  }

  var logger: Logger { Logger(label: "test") { _ in Handler(recorder: self) } }

  private struct Handler: LogHandler {
    let recorder: LogRecorder
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { self.metadata[key] }
      set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      let all = self.metadata.merging(event.metadata ?? [:]) { $1 }
      let words = all.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
      let line = ([event.level.rawValue, "\(event.message)"] + words).joined(separator: " ")
      self.recorder.change { $0.lines.append(line) }
    }
  }
}
