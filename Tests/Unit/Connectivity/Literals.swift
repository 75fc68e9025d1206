public import Connectivity

/// Addresses as string literals in tests.
extension IPAddress: ExpressibleByStringLiteral {
  public init(stringLiteral text: StaticString) {
    guard let address = IPAddress("\(text)") else { preconditionFailure("no address: \(text)") }
    self = address
  }
}
