public import Connectivity

/// Addresses that a test spells itself.
extension IPAddress: ExpressibleByStringLiteral {
  public init(stringLiteral text: StaticString) {
    guard let address = IPAddress("\(text)") else { preconditionFailure("no address: \(text)") }
    self = address
  }
}
