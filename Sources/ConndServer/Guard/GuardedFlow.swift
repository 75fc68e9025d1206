import Connectivity

/// A flow that is guarded, and what it is judged by: an object, because it is large, and a look mostly changes nothing of it.
final class GuardedFlow {
  var tracker: FlowTracker
  /// The path that the client knows of.
  private(set) var told: Path
  /// How many links of the chain the flow depends on.
  private var depth: Int
  /// The link that has the flow's own address.
  private(set) var sourceLink: UInt32?
  /// The number of the last pass that was due when the flow was added, or began: what happened by then does not concern it.
  private(set) var lastPass: UInt64

  init(tracker: FlowTracker, told: Path, depth: Int, sourceLink: UInt32?, lastPass: UInt64) {
    self.tracker = tracker
    self.told = told
    self.depth = depth
    self.sourceLink = sourceLink
    self.lastPass = lastPass
  }

  var baseline: FlowReader.Baseline {
    FlowReader.Baseline(
      path: self.tracker.path, depth: self.depth, source: self.tracker.source,
      sourceLink: self.sourceLink)
  }

  func settle(on way: Way, isNew: Bool) {
    if self.tracker.path.chain == way.judged.chain { self.depth = way.depth }
    if isNew { self.told = way.shown }
  }

  /// The flow has begun with the first path that it got.
  func begin(after lastPass: UInt64) {
    self.disregard(upTo: lastPass)
    // Before that it would have been sent from another address, on another link.
    if self.tracker.flow.local == nil { self.sourceLink = nil }
  }

  /// What the passes up to this one are about does not concern the flow.
  func disregard(upTo lastPass: UInt64) { self.lastPass = lastPass }
}
