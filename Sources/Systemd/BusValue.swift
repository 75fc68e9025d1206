/// A value on the bus, as far as anybody here needs to know of it.
public enum BusValue: Hashable, Sendable {
  case flag(Bool)
  /// A number without a fraction, of whatever width; what no `Int64` holds is its nearest.
  case number(Int64)
  /// A number, and a flag that says something of it: `(ub)`.
  case flaggedNumber(Int64, Bool)
  /// A string or an object's path.
  case text(String)
  /// Several of these.
  case texts([String])
  /// Of another type, which is not read.
  case other
}

/// Some properties of one of an object's interfaces.
public struct BusProperties: Hashable, Sendable {
  /// The interface.
  public var interface: String
  public var values: [String: BusValue]

  public init(_ interface: String, _ values: [String: BusValue]) {
    self.interface = interface
    self.values = values
  }
}
