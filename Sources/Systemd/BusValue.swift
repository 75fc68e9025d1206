/// A D-Bus value of a type that connd needs.
public enum BusValue: Hashable, Sendable {
  case flag(Bool)
  /// An integer of any width, clamped to `Int64`.
  case number(Int64)
  /// A number with a flag: `(ub)`.
  case flaggedNumber(Int64, Bool)
  /// A string or an object path.
  case text(String)
  /// An array of strings or object paths.
  case texts([String])
  /// A value of another type, which is not read.
  case other
}

/// Properties of one interface of an object.
public struct BusProperties: Hashable, Sendable {
  /// The name of the interface.
  public var interface: String
  public var values: [String: BusValue]

  public init(_ interface: String, _ values: [String: BusValue]) {
    self.interface = interface
    self.values = values
  }
}
