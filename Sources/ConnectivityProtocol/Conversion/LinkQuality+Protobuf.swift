public import Connectivity

extension Connectivity_V1_Quality {
  /// Returns `nil` for an unknown quality, which is not sent.
  public init?(_ model: LinkQuality) {
    switch model {
    case .unknown: return nil
    case .minimal: self = .minimal
    case .moderate: self = .moderate
    case .good: self = .good
    }
  }
}

extension LinkQuality {
  /// `unknown` for an unknown value.
  public init(_ message: Connectivity_V1_Quality) {
    self = Self.allCases.first { Connectivity_V1_Quality($0) == message } ?? .unknown
  }
}
