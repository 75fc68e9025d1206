internal import Connectivity
private import Synchronization

/// Detects changes of the default path after a channel has left it (W7).
final class DefaultPathWatch: Sendable {
  private let last = Mutex<KernelPath?>(nil)

  /// Whether the event reports that the path of new traffic changed, or that a limping link (Q2) is
  /// good again.
  func isChange(_ event: FlowEvent) -> Bool {
    switch event {
    case .refused: return false
    case .invalidation(let invalidation): return invalidation.severity == .destroy
    case .path(let path), .betterPathGone(let path):
      return self.last.withLock { last in
        defer { last = path }
        guard let known = last else { return false }
        let isWell =
          path.quality == .good && known.quality != .good
          || path.quality == .unknown && known.quality == .minimal
        return isWell || known.status != path.status || known.chain != path.chain
          || known.source != path.source || known.gateway != path.gateway
      }
    }
  }
}
