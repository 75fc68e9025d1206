package import ConnectivityProtobuf

/// An enum of the model that messages contain.
///
/// Each type has one table: its cases, whose raw values are their words; ``wireValue`` with the
/// value in messages; and the meaning of unknown values. The numbers come from the .proto files. A
/// test compares the table with them.
package protocol WireEnum: CaseIterable, Hashable, Sendable {
  associatedtype WireValue: ProtobufEnum

  /// The value in messages. Each case has its own.
  var wireValue: WireValue { get }
}

/// An enum for which an unknown value, which comes from a newer connd, is the nearest case that
/// promises nothing. So an older client keeps working.
package protocol ClosestWireEnum: WireEnum {
  static var unrecognized: Self { get }
}

extension WireEnum {
  /// Creates the case of a value in a message, or `nil` if it is unknown.
  package init?(known value: WireValue) {
    guard let model = Self.allCases.first(where: { $0.wireValue == value }) else { return nil }
    self = model
  }
}

extension ClosestWireEnum {
  package init(_ value: WireValue) { self = Self(known: value) ?? .unrecognized }
}

extension ProtobufEnum {
  package init<Model: WireEnum>(_ model: Model) where Model.WireValue == Self {
    self = model.wireValue
  }
}
