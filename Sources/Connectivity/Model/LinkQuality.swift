/// The quality of a link, as far as connd knows.
///
/// Do not use the quality to decide whether to connect: links of any quality may work for a
/// connection.
@nonexhaustive public enum LinkQuality: String, Hashable, Sendable, CaseIterable {
  /// connd has no evidence, as for most links that work.
  case unknown
  /// The link limps: connections over another link work, while those over this link do not.
  case minimal
  /// The Wi-Fi signal is low, or packets were just lost.
  case moderate
  /// The Wi-Fi signal is strong.
  case good
}
