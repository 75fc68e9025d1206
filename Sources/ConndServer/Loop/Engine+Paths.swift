import Connectivity
import ConnectivityRules

// The single destinations that clients watch.
extension Engine {
  /// Evaluates the next slice of the watched destinations.
  ///
  /// - Returns: The paths that have changed.
  mutating func evaluatePaths(
    _ kernel: any Kernel, at now: Instant
  ) throws(KernelUnavailable) -> [(destination: Destination, path: KernelPath)] {
    let destinations = self.watched.takeSlice()
    guard !destinations.isEmpty else { return [] }
    let paths = try self.context.read(kernel) { (view) throws(KernelUnavailable) in
      try view.askAnew(destinations)
      return try destinations.map { (destination) throws(KernelUnavailable) in
        (destination, try self.reader.watchedPath(to: destination, view))
      }
    }
    self.noteExpiry(kernel, at: now)
    return paths.filter { self.watched.tell($0.1, of: $0.0) }
  }

  /// Reads the path to a destination that a client begins to watch.
  ///
  /// - Returns: The path, and whether it is new to the clients that already watch the destination.
  mutating func followPath(
    to destination: Destination, _ kernel: any Kernel, at now: Instant
  ) throws(KernelUnavailable) -> (path: KernelPath, isNews: Bool) {
    let path = try self.context.read(kernel) { (view) throws(KernelUnavailable) in
      try self.reader.watchedPath(to: destination, view)
    }
    self.noteExpiry(kernel, at: now)
    return (path, self.watched.tell(path, of: destination))
  }

  /// Begins to watch a destination with its current path.
  mutating func watch(_ destination: Destination, path: KernelPath) {
    self.watched.tell(path, of: destination)
  }

  mutating func unwatch(_ destination: Destination) { self.watched.forget(destination) }

  /// Stores modems that change no path. Only the use of links beside the default path changes when
  /// a modem begins or stops roaming (W6).
  mutating func update(toUnchanged modems: [String: ModemLink]) {
    let roaming = self.context.modems.roaming
    self.context.modems.update(to: modems)
    if self.context.modems.roaming != roaming { self.watched.examineAll() }
  }
}

extension PathReader {
  /// Returns the path to a destination, and subscribes to what it depends on.
  fileprivate func watchedPath(
    to destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> KernelPath {
    let found = try view.unlessRefused { () throws(KernelUnavailable) in
      try self.path(to: destination, view)
    }
    guard let found else { return .unknown }
    var path = found.path
    view.subscriptions.use(found.facts)
    let objection = try view.unlessRefused { () throws(KernelUnavailable) in
      try self.objection(toUsing: destination, view)
    }
    path.objection = objection ?? .noDefaultPath
    return path
  }
}
