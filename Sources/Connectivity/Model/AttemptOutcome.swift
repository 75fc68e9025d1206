/// How a client's attempt to connect by the default way ended.
package enum AttemptOutcome: UInt8, Hashable, Sendable, CaseIterable {
  /// The connection to the same host over another link was ready. The connection by the default way
  /// was not ready, after two SYNs or two timeouts without an answer.
  case contrast = 1
  /// The connection was ready after a retransmission.
  case ready
  /// The connection was ready without a retransmission.
  case clean
  /// A connection that was ready before has stalled (W4).
  case stalled
}
