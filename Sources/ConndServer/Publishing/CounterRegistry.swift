import CoreMetrics
import Synchronization

/// Stores the counters of swift-metrics in this process, because connd reports their values itself.
///
/// Supports counters only. Timers and recorders are not used, and count nothing. Safe to use from
/// any thread.
final class CounterRegistry: Sendable {
  /// The label of a counter, and its dimension if it has one.
  struct Key: Hashable, Sendable {
    var name: String
    var kind: String
  }

  private final class Value: CounterHandler {
    private let count = Atomic<Int64>(0)

    var value: Int64 { self.count.load(ordering: .relaxed) }

    func increment(by amount: Int64) { self.count.wrappingAdd(amount, ordering: .relaxed) }

    func reset() { self.count.store(0, ordering: .relaxed) }
  }

  private let counters = Mutex<[Key: Value]>([:])

  var values: [Key: UInt64] {
    self.counters.withLock { $0.mapValues { UInt64(max(0, $0.value)) } }
  }
}

extension CounterRegistry: MetricsFactory {
  func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    let key = Key(name: label, kind: dimensions.first?.1 ?? "")
    return self.counters.withLock { counters in
      if let counter = counters[key] { return counter }
      let counter = Value()
      counters[key] = counter
      return counter
    }
  }

  func makeRecorder(
    label: String, dimensions: [(String, String)], aggregate: Bool
  ) -> any RecorderHandler {
    NOOPMetricsHandler.instance
  }

  func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    NOOPMetricsHandler.instance
  }

  // Counters keep their values as long as the process lives.
  func destroyCounter(_ handler: any CounterHandler) {}
  func destroyRecorder(_ handler: any RecorderHandler) {}
  func destroyTimer(_ handler: any TimerHandler) {}
}
