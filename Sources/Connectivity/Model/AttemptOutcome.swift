/// How a client's attempt to connect by the default way ended.
package enum AttemptOutcome: UInt8, Hashable, Sendable, CaseIterable {
  /// A connection to the same host was ready by another link. The one by the default way was not,
  /// after two SYNs or two timeouts without an answer.
  case contrast = 1
  /// The connection was ready, after the kernel had sent a packet twice.
  case ready
  /// The connection was ready, and the kernel sent no packet twice.
  case clean
  /// A connection that was ready before has stalled (W4).
  case stalled
}
