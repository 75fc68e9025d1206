import Connectivity
import ConnectivityRules

/// Reads the default paths, and the state that the stream of changes follows: the paths on which
/// channels were made, and former source addresses.
struct DefaultPathReader {
  let reader: PathReader
  let changes: ChangeDetector

  typealias FamilyPath = (family: AddressFamily, path: DefaultPath)

  struct Reading {
    var paths: [FamilyPath]
    var state = ChangeDetector.Reading(.unknown)
    /// Whether the answers for changed paths stayed the same from the first query to the last. If
    /// not, the reading mixes the states of two moments (K8).
    var isSettled = false
  }

  func read(_ view: KernelView, _ removals: Removals) throws(KernelUnavailable) -> Reading {
    let flows = FlowReader(self.reader, view, removals: removals)
    var reading = Reading(paths: try self.defaultPaths(view))
    for (family, path) in reading.paths {
      reading.state.observation[family] = path.observed
      let flowPath = try view.unlessRefused { () throws(KernelUnavailable) in
        try flows.flowPath(to: path.destination, path.facts, path.observed.path)
      }
      reading.state.networks[family] = flowPath?.network
      // Reading the paths over equal routes subscribes to their links and gateways.
      for equal in path.equals {
        _ = try view.unlessRefused { () throws(KernelUnavailable) in
          try flows.flowPath(to: equal.question, equal.answer)
        }
      }
    }
    for followed in self.changes.followed {
      guard var question = reading.path(followed.family)?.destination else { continue }
      question.source = followed.source
      let source = question
      reading.state.followed[followed.id] = try view.unlessRefused { () throws(KernelUnavailable) in
        var flowPath = try flows.flowPath(to: source)
        return try flows.reading(
          of: source, madeOn: followed.path, by: followed.firstGateway, &flowPath)
      }
    }
    for former in self.changes.formerSources {
      guard let path = reading.path(former.address.family) else { continue }
      let loss = try view.unlessRefused { () throws(KernelUnavailable) in
        try flows.loss(of: former, to: path.destination)
      }
      reading.state.lostSources[former] = loss ?? nil
    }
    reading.isSettled = try self.isSettled(reading.paths, view)
    return reading
  }

  private func isSettled(
    _ paths: [FamilyPath], _ view: KernelView
  ) throws(KernelUnavailable) -> Bool {
    for (family, path) in paths
    where path.observed.path != self.changes.published(family) {
      let isSettled = try view.unlessRefused { () throws(KernelUnavailable) in
        try self.reader.isSettled(path, view)
      }
      guard isSettled ?? true else { return false }
    }
    return true
  }

  private func defaultPaths(_ view: KernelView) throws(KernelUnavailable) -> [FamilyPath] {
    // Usually the first probe represents the majority.
    let followed = self.changes.followed.compactMap { followed in
      self.reader.destinations[followed.family].first.map {
        Destination($0, source: followed.source)
      }
    }
    try self.reader.askProbes(AddressFamily.allCases, and: followed, view)
    return try AddressFamily.allCases.map { (family) throws(KernelUnavailable) in
      let path = try view.unlessRefused { () throws(KernelUnavailable) in
        try self.reader.defaultPath(family, view)
      }
      let probe = self.reader.destinations[family].first ?? .unspecified(family)
      return (family, path ?? DefaultPath(unknownTo: Destination(probe)))
    }
  }
}

extension DefaultPathReader.Reading {
  fileprivate func path(_ family: AddressFamily) -> DefaultPath? {
    self.paths.first { $0.family == family }?.path
  }
}
