extension Occasion {
  /// Why a flow is not viable any more, or its path is another (T5).
  public func cause(of family: AddressFamily, from old: Path, to new: Path) -> Cause {
    if let cause = self.cause { return cause }
    switch self {
    case .events(let events) where !events.isEmpty:
      let telling = events.first { $0.saysGone(ObservedPath(old)) }
      return telling?.cause(between: old, new) ?? events.cause(of: family, from: old, to: new)
    default:
      return Cause(.timer, "graceEnded", interface: old.interface)
    }
  }
}
