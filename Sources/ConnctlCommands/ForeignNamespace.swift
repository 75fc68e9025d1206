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
