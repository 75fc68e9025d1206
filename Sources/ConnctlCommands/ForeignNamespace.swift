import ConnectivityMonitor
import ConnectivityProtocol

extension ForeignNamespace {
  /// The remark beside an answer that is about connd's namespace.
  var remark: String { "\(self): this is about connd's" }

  /// The error of a command that would answer about the wrong namespace.
  var refusal: String { "\(self): run this command in connd's namespace, or a connd in this one" }
}

extension ConndServices {
  /// Returns connd's network namespace if it differs from this process's, or `nil`.
  func foreignNamespace() async throws -> ForeignNamespace? {
    ForeignNamespace(of: try await self.call(Connectivity.GetStatus.self).networkNamespace)
  }
}

extension ConnctlCommand {
  /// Returns connd's answer. A remark says so if the answer is about another network namespace.
  func answer<Answer: Sendable>(
    through connector: Connector, _ body: (ConndServices) async throws -> Answer
  ) async throws -> Answer {
    let (answer, foreign) = try await connector.withServices(at: self.socket) { connd in
      (try await body(connd), try? await connd.foreignNamespace())
    }
    if let foreign { self.console.remark(foreign.remark) }
    return answer
  }

  /// Says so if connd watches another network namespace.
  func remarkNamespace(through connector: Connector) async {
    guard let foreign = await connector.foreignNamespace(at: self.socket) else { return }
    self.console.remark(foreign.remark)
  }
}

extension Connector {
  /// Returns connd's network namespace if it differs from this process's, or `nil`, also if connd
  /// does not answer.
  func foreignNamespace(at socket: String) async -> ForeignNamespace? {
    try? await self.withServices(at: socket) { try await $0.foreignNamespace() }
  }

  /// - Throws: ``ForeignNamespace`` if connd watches another network namespace.
  func checkNamespace(at socket: String) async throws {
    if let foreign = await self.foreignNamespace(at: socket) { throw foreign }
  }
}
