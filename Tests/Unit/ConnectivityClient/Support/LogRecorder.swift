import Logging
import Testing

/// Records log messages, one line each: level, text and metadata.
final class LogRecorder: Sendable {
  private let recorded = WatchedState<[String]>([])

  var lines: [String] { self.recorded.value }

  /// Waits until there are this many matching lines.
  func wait(
    times: Int = 1, sourceLocation: SourceLocation = #_sourceLocation,
    for wants: (String) -> Bool
  ) async throws {
    try await self.recorded.wait(for: "\(times) such lines of the log", sourceLocation) {
      $0.count(where: wants) >= times
    }
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
      self.recorder.recorded.change { $0.append(line) }
    }
  }
}
