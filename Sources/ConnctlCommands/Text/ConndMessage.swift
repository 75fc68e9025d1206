import ConnectivityMonitor

/// The messages about connd's availability, for commands that follow connd.
enum ConndMessage {
  /// Returns the message that connd is absent and the command waits for it.
  ///
  /// - Parameters:
  ///   - wasThere: Whether connd has answered before.
  ///   - left: A clause about the state that is kept in the meantime.
  static func absent(_ error: ConndError, wasThere: Bool = true, left: String? = nil) -> String {
    let message =
      wasThere ? "connd went away (\(error)); waiting for it" : "waiting for connd (\(error))"
    return message + (left.map { "; \($0)" } ?? "")
  }

  /// Returns the message that connd is available again.
  ///
  /// - Parameter generation: The generation that the next changes follow, if that matters.
  static func back(after generation: UInt64? = nil) -> String {
    "connd is back" + (generation.map { "; continuing after generation \($0)" } ?? "")
  }
}
