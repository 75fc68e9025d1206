import Testing

/// Takes turns with other tasks until the condition is met.
///
/// - Throws: `CancellationError`.
func takeTurns(
  until event: String, sourceLocation: SourceLocation = #_sourceLocation, _ isMet: () -> Bool
) async throws {
  try await waiting(for: event, sourceLocation) {
    while !isMet() {
      try Task.checkCancellation()
      await Task.yield()
    }
  }
}
