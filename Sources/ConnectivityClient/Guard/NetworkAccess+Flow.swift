internal import Connectivity
internal import ConnectivitySession

extension NetworkAccess {
  /// What connd's news of a flow mean for a channel that may use these networks; `nil` where the flow is as good as before.
  func invalidation(by event: FlowEvent) -> FlowInvalidation? {
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
      // connd follows what paths cost (I8), and knows nothing of prohibited media.
      guard let refusal = self.refusal(of: path), self.prohibitedMedia.contains(path.medium) else {
        return nil
      }
      // Below a tunnel the medium may be a guess, or not even that, as during each roam there: for that nothing under way ends.
      let isCertain = path.guessedLinks == 0 && path.medium != .tunnel
      return FlowInvalidation(
        reason: .policy, severity: isCertain ? .destroy : .drain,
        cause: Cause(.link, "mediumChanged", interface: path.interface), path: path,
        networkUnavailableReason: refusal.reason)
    }
  }
}
