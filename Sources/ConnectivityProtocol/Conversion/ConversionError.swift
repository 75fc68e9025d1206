/// The error of a message that cannot be converted.
public struct ConversionError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The invalid field, by its name in the .proto file: `status`, `source`.
  public var field: String
  /// The problem with the field.
  public var problem: String

  package init(_ field: String, _ problem: String) {
    self.field = field
    self.problem = problem
  }

  public var description: String { "\(self.field): \(self.problem)" }
}
