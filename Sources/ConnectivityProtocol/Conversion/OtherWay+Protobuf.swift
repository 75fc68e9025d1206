public import Connectivity

extension Connectivity_V1_OtherWay {
  public init(_ way: OtherWay) {
    self.init()
    if let path = way.path { self.path = Connectivity_V1_Path(path) }
    if let reason = way.whyNot { self.whyNot = Connectivity_V1_OtherWayReason(reason) }
  }
}

extension OtherWay {
  /// An unknown reason becomes `noOtherPath`, because the way is not allowed.
  ///
  /// - Throws: ``ConversionError`` if an address is invalid.
  public init(_ message: Connectivity_V1_OtherWay) throws(ConversionError) {
    let path = message.hasPath ? try KernelPath(message.path) : nil
    if message.hasWhyNot {
      self.init(path, whyNot: OtherWay.Reason(message.whyNot))
    } else if let path {
      self.init(path)
    } else {
      self.init(whyNot: .noOtherPath)
    }
  }
}

extension Connectivity_V1_OtherWayReason {
  public init(_ model: OtherWay.Reason) {
    switch model {
    case .bound: self = .bound
    case .marked: self = .marked
    case .notGlobal: self = .notGlobal
    case .noDefaultPath: self = .noDefaultPath
    case .tunnel: self = .tunnel
    case .ownRoute: self = .ownRoute
    case .noOtherPath: self = .noOtherPath
    case .strictFilter: self = .strictFilter
    case .roaming: self = .roaming
    case .constrained: self = .constrained
    case .expensive: self = .expensive
    case .switchedOff: self = .switchedOff
    }
  }
}

extension OtherWay.Reason {
  /// `noOtherPath` for an unknown value.
  public init(_ message: Connectivity_V1_OtherWayReason) {
    self =
      Self.allCases.first { Connectivity_V1_OtherWayReason($0) == message } ?? .noOtherPath
  }
}
