public import Connectivity

extension Connectivity_V1_OtherWay {
  public init(_ answer: OtherWay) {
    self.init()
    if let path = answer.path { self.path = Connectivity_V1_Path(path) }
    if let reason = answer.whyNot { self.whyNot = Connectivity_V1_OtherWayReason(reason) }
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
