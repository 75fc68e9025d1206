import ServiceLifecycle
import UnixSignals

/// Does something at each signal of a kind, one after the other, until connd stops.
func atEach(_ signal: UnixSignal, _ body: @escaping @Sendable () async -> Void) async {
  let signals = await UnixSignalsSequence(trapping: signal)
  await withTaskGroup(of: Void.self) { group in
    group.addTask { for await _ in signals { await body() } }
    try? await gracefulShutdown()
    group.cancelAll()
  }
}
