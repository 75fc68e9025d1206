import ServiceLifecycle
import UnixSignals

/// Runs a closure for each signal, one after the other, until connd stops.
func atEach(_ signals: UnixSignalsSequence, _ body: @escaping @Sendable () async -> Void) async {
  await withTaskGroup(of: Void.self) { group in
    group.addTask { for await _ in signals { await body() } }
    try? await gracefulShutdown()
    group.cancelAll()
  }
}
