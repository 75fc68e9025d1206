import CoreMetrics
import Synchronization

/// Records measurements, one line each: name, dimensions and value.
final class MetricsRecorder: MetricsFactory {
  private let state = Mutex<[String]>([])

  var lines: [String] { self.state.withLock { $0 } }

  private final class Handler: CounterHandler, TimerHandler, RecorderHandler {
    private let name: String
    private let recorder: MetricsRecorder

    init(_ label: String, _ dimensions: [(String, String)], _ recorder: MetricsRecorder) {
      self.name = ([label] + dimensions.map { "\($0)=\($1)" }).joined(separator: " ")
      self.recorder = recorder
    }

    func increment(by amount: Int64) { self.record(amount) }
    func reset() {}
    func recordNanoseconds(_ duration: Int64) { self.record(duration) }
    func record(_ value: Double) { self.record(Int64(value)) }
    func record(_ value: Int64) {
      self.recorder.state.withLock { $0.append("\(self.name) \(value)") }
    }
  }

  func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    Handler(label, dimensions, self)
  }

  func makeRecorder(
    label: String, dimensions: [(String, String)], aggregate: Bool
  ) -> any RecorderHandler {
    Handler(label, dimensions, self)
  }

  func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    Handler(label, dimensions, self)
  }

  func destroyCounter(_ handler: any CounterHandler) {}
  func destroyRecorder(_ handler: any RecorderHandler) {}
  func destroyTimer(_ handler: any TimerHandler) {}
}
