package import Connectivity

extension NetworkAccess {
  /// Returns the invalidation that an event of a flow causes for a channel with this access, or
  /// `nil` if it causes none.
  package func invalidation(by event: FlowEvent) -> InvalidationError? {
    switch event {
    case .refused:
      return nil
    case .invalidation(var invalidation):
      if invalidation.reason == .policy {
        invalidation.networkUnavailableReason =
          invalidation.path.flatMap { self.refusal(of: $0)?.reason }
      }
      return invalidation
    case .path(let path), .betterPathGone(let path):
      // connd checks the cost of paths (I8), but does not know about prohibited media.
      guard let refusal = self.refusal(of: path), self.prohibitedMedia.contains(path.medium) else {
        return nil
      }
      // Below a tunnel the medium may be a guess, or unknown for a moment while the tunnel roams.
      // Such a medium must not end calls in flight.
      let isCertain = path.guessedLinks == 0 && path.medium != .tunnel
      return InvalidationError(
        reason: .policy, severity: isCertain ? .destroy : .drain,
        cause: ChangeCause(.link, "mediumChanged", interface: path.interface), path: path,
        networkUnavailableReason: refusal.reason)
    }
  }
}
