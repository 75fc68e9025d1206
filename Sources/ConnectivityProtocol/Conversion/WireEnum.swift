package import ConnectivityProtobuf

/// An enum of the model that messages contain.
///
/// Each type has one table: its cases, with the names as raw values; ``wireValue`` with the value
/// in messages; and the meaning of unknown values. The numbers come from the .proto files, and a
/// test compares the table with the files.
package protocol WireEnum: CaseIterable, Hashable, Sendable {
  associatedtype WireValue: ProtobufEnum

  /// The value in messages, unique for each case.
  var wireValue: WireValue { get }
}

/// An enum that replaces an unknown value from a newer connd by the nearest case that promises
/// nothing. Older clients therefore keep working.
package protocol ClosestWireEnum: WireEnum {
  static var unrecognized: Self { get }
}

extension WireEnum {
  /// Creates the case for a value in a message, or `nil` if the value is unknown.
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
