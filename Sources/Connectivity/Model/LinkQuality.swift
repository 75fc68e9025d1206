/// How well a link carries traffic, as far as connd knows.
///
/// Do not use it to decide whether to connect: a link of any quality may carry the next connection.
@nonexhaustive public enum LinkQuality: String, Hashable, Sendable, CaseIterable {
  /// connd has no evidence, as for most links that work.
  case unknown
  /// The link limps: connections by another link work, while those by this link do not.
  case minimal
  /// The Wi-Fi signal is low, or packets were just lost.
  case moderate
  /// The Wi-Fi signal is strong.
  case good
}
