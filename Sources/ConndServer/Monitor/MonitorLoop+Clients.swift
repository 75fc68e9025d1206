import Connectivity

extension MonitorLoop {
  /// Takes another configuration and looks at everything with its eyes.
  mutating func configure(_ configuration: Configuration) {
    self.engine.configure(configuration)
    self.updateFilter()
    self.step(.configuration)
  }

  /// Follows a destination: the stream yields its path now, and then each new one, of which a slow reader gets the last.
  ///
  /// - Returns: the stream, and the number under which `unwatch` ends it.
  mutating func watch(_ destination: Destination) -> (AsyncStream<Path>, UInt64) {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Path.self, bufferingPolicy: .bufferingNewest(1))
    self.lastWatcher += 1
    let isNew = self.watchers[destination] == nil
    self.watchers[destination, default: [:]][self.lastWatcher] = continuation
    // First the filter, then the reading: what changes in between is told.
    self.engine.watch(destination, path: .unknown)
    if isNew { self.updateFilter() }
    let path = self.path(to: destination)
    self.engine.watch(destination, path: path)
    continuation.yield(path)
    return (stream, self.lastWatcher)
  }

  mutating func unwatch(_ destination: Destination, _ watcher: UInt64) {
    self.watchers[destination]?.removeValue(forKey: watcher)?.finish()
    guard self.watchers[destination]?.isEmpty == true else { return }
    self.watchers[destination] = nil
    self.engine.unwatch(destination)
    self.updateFilter()
  }

  /// Ends all streams of `watch` and of `Guard`: connd is stopping.
  mutating func endStreams() {
    for watcher in self.watchers.values.flatMap(\.values) { watcher.finish() }
    self.watchers = [:]
    for guardian in self.guardians.values { guardian.finish() }
    self.guardians = [:]
  }

  private mutating func path(to destination: Destination) -> Path {
    guard let kernel = self.kernel else { return .unknown }
    do throws(KernelUnavailable) {
      return try self.engine.reader.path(to: destination, from: kernel)
    } catch {
      self.lose(error)
      return .unknown
    }
  }

  mutating func updateFilter() {
    self.isFilterWide = false
    do throws(KernelUnavailable) {
      try self.kernel?.watch(self.engine.watchedByKernel)
    } catch {
      self.lose(error)
    }
  }

  /// Has the filter let pass what concerns the gateways in use, and looks at what may have come before it did.
  mutating func watchGateways(_ kernel: NetlinkKernel) throws(KernelUnavailable) {
    try kernel.watch(self.engine.watchedByKernel)
    let missed = try self.engine.filterIsSet(kernel)
    if !missed.isEmpty { self.step(.events(missed)) }
  }
}
