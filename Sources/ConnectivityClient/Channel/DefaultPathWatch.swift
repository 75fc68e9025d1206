internal import Connectivity
private import Synchronization

/// Compares the default path with that on which a channel left it (W7).
final class DefaultPathWatch: Sendable {
  private let first = Mutex<KernelPath?>(nil)

  /// Whether the event reports that new traffic takes another way than at first.
  func isChange(_ event: FlowEvent) -> Bool {
    switch event {
    case .refused: return false
    case .invalidation(let invalidation): return invalidation.severity == .destroy
    case .path(let path), .betterPathGone(let path):
      return self.first.withLock { first in
        guard let known = first else {
          first = path
          return false
        }
        return known.status != path.status || known.chain != path.chain
          || known.source != path.source || known.gateway != path.gateway
      }
    }
  }
}
