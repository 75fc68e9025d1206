/// The part that fails, according to a diagnosis (Q7).
package enum DiagnosisVerdict: String, Hashable, Sendable, CaseIterable {
  case nothingWrong
  /// The kernel has no path, or a link of the path passes no traffic.
  case noPath
  /// The path works, but this machine does not send the packets.
  case notLetOut
  case packetsLost
  /// No host outside of this machine's networks answers: the router, or what is beyond it.
  case nothingAnswers
  case namesUnresolved
  /// Only these hosts, this port, or this address family.
  case onlyDestination
  /// Another user's connections to the same hosts work.
  case onlyUser
  case largePacketsLost
  /// There is too little traffic to judge by.
  case unknown
}
