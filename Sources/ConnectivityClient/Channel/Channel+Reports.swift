internal import Logging

/// A state of a channel, and its connection if it has one.
struct StateReport: Sendable {
  var state: ConnectivityState
  var connection: Connection?
}

extension Channel {
  /// Whether a logger or an observer receives the states.
  var isObserved: Bool {
    self.logger != nil || self.settings.config.onConnectivityStateChange != nil
  }

  /// Reports each state to the log and the configuration's observer until the channel is shut down.
  /// A slow observer delays nothing else.
  ///
  /// - Returns: A stream that ends after the last report. It also ends if the task is cancelled.
  func observe() -> AsyncStream<Never> {
    let (end, ended) = AsyncStream.makeStream(of: Never.self)
    guard self.isObserved else {
      ended.finish()
      return end
    }
    let config = self.settings.config
    let executor = config.connectivityStateExecutor
    Task(executorPreference: executor ?? EventLoopTaskExecutor(self.settings.eventLoop)) {
      for await report in self.reports {
        self.logger?.debug(
          "connectivity state changed",
          metadata: (report.connection?.metadata ?? [:]).merging(["state": "\(report.state)"]) {
            $1
          }
        )
        config.onConnectivityStateChange?(report.state)
      }
      ended.finish()
    }
    return end
  }

  /// Logs that a connection ended by itself.
  ///
  /// - Parameters:
  ///   - broken: Whether calls were in flight.
  ///   - error: The error of the socket, or `nil` if the server closed the connection.
  func logEnd(of connection: Connection, broken: Bool, _ error: (any Error)?) {
    guard let logger = self.logger else { return }
    var metadata = connection.metadata
    metadata["error"] = error.map { "\($0)" }
    if broken {
      logger.info("the connection broke, and its calls failed", metadata: metadata)
    } else {
      logger.debug("the connection is closed", metadata: metadata)
    }
  }
}

extension Connection {
  /// The metadata for log messages about the connection and its calls.
  var metadata: Logger.Metadata {
    var metadata: Logger.Metadata = [
      "grpc_connection_id": "\(self.name)", "grpc_remote": "\(self.target.address)",
    ]
    if let path = self.path {
      if let interface = path.interface { metadata["network_interface"] = "\(interface)" }
      metadata["network_medium"] = "\(path.medium.rawValue)"
    }
    return metadata
  }
}
