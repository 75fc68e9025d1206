import Connectivity
import ConnectivityRules

/// Recently removed links that programs may recreate: restarting a tunnel deletes its link and
/// creates one with the same name and address.
///
/// Implements rule I1.
struct RemovedLinks {
  private var indices: [UInt32] = []
  private static let maxCount = 64

  mutating func note(_ event: KernelEvent) {
    guard case .linkRemoved(let link) = event, link.isMadeByProgram else { return }
    self.indices.append(link.index)
    if self.indices.count > Self.maxCount { self.indices.removeFirst() }
  }

  func contains(_ index: UInt32) -> Bool { self.indices.contains(index) }
}
