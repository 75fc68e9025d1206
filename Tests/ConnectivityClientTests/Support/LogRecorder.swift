import Logging
import Synchronization

/// Keeps what is logged, a line for each message: its level, its text and its metadata.
final class LogRecorder: Sendable {
  private let state = Mutex<[String]>([])
  private let onLine: @Sendable (String) -> Void

  init(onLine: @escaping @Sendable (String) -> Void = { _ in }) { self.onLine = onLine }

  var lines: [String] { self.state.withLock { $0 } }

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
      self.recorder.state.withLock { $0.append(line) }
      self.recorder.onLine(line)
    }
  }
}
