/// Why a message cannot be read as what it stands for.
public struct ConversionError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The field that is wrong, as the .proto names it: `status`, `source`.
  public var field: String
  /// What is wrong with it.
  public var problem: String

  package init(_ field: String, _ problem: String) {
    self.field = field
    self.problem = problem
  }

  public var description: String { "\(self.field): \(self.problem)" }
}
