package import Connectivity
package import Logging

extension ConnectionGuard.Report {
  /// Logs that connd cannot be trusted, if the report proves that (I11).
  ///
  /// - Parameter metadata: Describes the connection.
  package func warn(_ logger: Logger?, _ metadata: @autoclosure () -> Logger.Metadata) {
    guard let rest = self.rest, let invalidation = self.event.invalidation else { return }
    logger?.warning(
      "connd wrongly rejects new connections; for \(rest) they are not guarded",
      metadata: invalidation.evidence(against: self.flow).merging(metadata()) { $1 })
  }
}

extension InvalidationError {
  /// The data of the flow and connd's complete answer, for the log.
  package func evidence(against flow: FlowGuard.Flow) -> Logger.Metadata {
    var metadata: Logger.Metadata = [
      "reason": "\(self.reason.rawValue)",
      "cause": "\(self.cause.trigger.rawValue) \(self.cause.change)",
    ]
    if let path = self.path {
      let parts: [String?] = [
        path.status.rawValue, path.reason?.rawValue, path.chain.map(\.name).joined(separator: "/"),
        path.source.map { "from \($0)" }, path.gateway.map { "via \($0)" },
        path.table.map { "table \($0)" },
      ]
      metadata["path"] = "\(parts.compactMap { $0 }.joined(separator: " "))"
    }
    metadata["remote"] = "\(flow.remote)"
    metadata["local"] = flow.local.map { "\($0)" }
    metadata["mark"] = "\(flow.mark)"
    metadata["interface"] = flow.interface.map { "\($0)" }
    if let transport = flow.transport {
      metadata["local_port"] = "\(transport.localPort)"
      metadata["remote_port"] = "\(transport.remotePort)"
      metadata["protocol"] = "\(transport.number)"
    }
    return metadata
  }
}
