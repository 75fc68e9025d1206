import TestKit
import Testing

extension Trait where Self == ConditionTrait {
  /// Skips a test if no network namespace can be created.
  static var needsNamespaces: Self {
    .enabled(
      if: NetworkNamespace.isEnabled,
      "no network namespace can be made here: \(NetworkNamespace.obstacle ?? "")")
  }
}
