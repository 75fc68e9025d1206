import Connectivity
import ConnectivityRules

/// Reads what the stream of changes follows: first the default paths, then the paths on which
/// channels were made, and former source addresses.
struct DefaultPathReader {
  let reader: PathReader

  /// The default paths of all address families.
  struct Paths {
    fileprivate var paths: [(family: AddressFamily, path: DefaultPath)]

    var observation: Observation {
      var observation = Observation.unknown
      for (family, path) in self.paths { observation[family] = path.observed }
      return observation
    }

    /// The families with other paths than the published ones.
    func changed(from status: ConnectivityStatus) -> [AddressFamily] {
      self.paths.filter { $0.path.observed.path != status[$0.family] }.map(\.family)
    }

    fileprivate subscript(family: AddressFamily) -> DefaultPath? {
      self.paths.first { $0.family == family }?.path
    }
  }

  func paths(_ view: KernelView) throws(KernelUnavailable) -> Paths {
    try self.reader.askProbes(AddressFamily.allCases, view)
    return Paths(
      paths: try AddressFamily.allCases.map { (family) throws(KernelUnavailable) in
        let path = try view.unlessRefused { () throws(KernelUnavailable) in
          try self.reader.defaultPath(family, view)
        }
        let probe = self.reader.destinations[family].first ?? .unspecified(family)
        return (family, path ?? DefaultPath(unknownTo: Destination(probe)))
      })
  }

  /// Whether the kernel still gives the answers that some paths were read from. If not, what was
  /// read since then mixes the states of two moments (K8).
  func areSettled(
    _ paths: Paths, of families: [AddressFamily], _ view: KernelView
  ) throws(KernelUnavailable) -> Bool {
    for family in families {
      guard let path = paths[family] else { continue }
      let isSettled = try view.unlessRefused { () throws(KernelUnavailable) in
        try self.reader.isSettled(path, view)
      }
      guard isSettled ?? true else { return false }
    }
    return true
  }

  /// Reads the state of the channels on published paths.
  func channels(
    _ paths: Paths, of changes: ChangeDetector, _ view: KernelView, _ removals: Removals
  ) throws(KernelUnavailable) -> ChangeDetector.Reading {
    let flows = FlowReader(self.reader, view, removals: removals)
    var reading = ChangeDetector.Reading(paths.observation)
    for (family, path) in paths.paths {
      let flowPath = try view.unlessRefused { () throws(KernelUnavailable) in
        try flows.flowPath(to: path.destination, path.facts, path.observed.path)
      }
      reading.networks[family] = flowPath?.network
      // Reading the paths over equal routes subscribes to their links and gateways.
      for equal in path.equals {
        _ = try view.unlessRefused { () throws(KernelUnavailable) in
          try flows.flowPath(to: equal.question, equal.answer)
        }
      }
    }
    let followed = changes.followed.compactMap { followed in
      paths[followed.family].map { path in
        var question = path.destination
        question.source = followed.source
        return (followed, question)
      }
    }
    if !followed.isEmpty { try view.askAnew(followed.map(\.1)) }
    for (followed, question) in followed {
      reading.followed[followed.id] = try view.unlessRefused { () throws(KernelUnavailable) in
        var flowPath = try flows.flowPath(to: question)
        return try flows.reading(
          of: question, madeOn: followed.path, by: followed.firstGateway, &flowPath)
      }
    }
    for former in changes.formerSources {
      guard let path = paths[former.address.family] else { continue }
      let loss = try view.unlessRefused { () throws(KernelUnavailable) in
        try flows.loss(of: former, to: path.destination)
      }
      reading.lostSources[former] = loss ?? nil
    }
    return reading
  }
}
