package import Connectivity
package import Logging

extension FlowInvalidation {
  /// The data of the flow and connd's complete answer, for the log.
  package func evidence(against flow: FlowGuard.Flow) -> Logger.Metadata {
    var metadata: Logger.Metadata = [
      "reason": "\(self.reason.rawValue)",
      "cause": "\(self.cause.trigger.rawValue) \(self.cause.change)",
    ]
    if let path = self.path {
      let words: [String?] = [
        path.status.rawValue, path.reason?.rawValue, path.chain.map(\.name).joined(separator: "/"),
        path.source.map { "from \($0)" }, path.gateway.map { "via \($0)" },
        path.table.map { "table \($0)" },
      ]
      metadata["path"] = "\(words.compactMap { $0 }.joined(separator: " "))"
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
