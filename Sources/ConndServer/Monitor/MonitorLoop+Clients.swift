import Connectivity
import ConnectivityRules
import Netlink

extension MonitorLoop {
  /// Takes another configuration and looks at everything with its eyes.
  mutating func configure(_ configuration: Configuration) {
    self.engine.configure(configuration)
    self.limits = configuration.limits
    self.updateFilter()
    self.step(.configuration)
  }

  struct Watch: Sendable {
    /// The path now, and then each new one, of which a slow reader gets the last.
    var paths: AsyncStream<Path>
    /// The number under which `unwatch` ends it.
    var watcher: UInt64
  }

  /// Follows a destination.
  mutating func watch(_ destination: Destination) -> Watch {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Path.self, bufferingPolicy: .bufferingNewest(1))
    self.lastWatcher += 1
    let isNew = self.watchers[destination] == nil
    self.watchers[destination, default: [:]][self.lastWatcher] = continuation
    // First the filter, then the reading: what changes in between is told.
    if isNew { self.engine.watch(destination, path: .unknown) }
    if isNew, let kernel = self.kernel {
      do throws(KernelUnavailable) {
        try self.widenFilter(to: [destination.address], kernel)
      } catch {
        self.lose(error)
      }
    }
    let found = self.path(to: destination)
    // It may be news to those who follow it already, of which the kernel's message is still to be read.
    if found.isNews {
      self.publish([(destination, found.path)])
    } else {
      continuation.yield(found.path)
    }
    return Watch(paths: stream, watcher: self.lastWatcher)
  }

  mutating func unwatch(_ destination: Destination, _ watcher: UInt64) {
    self.watchers[destination]?.removeValue(forKey: watcher)?.finish()
    guard self.watchers[destination]?.isEmpty == true else { return }
    self.watchers[destination] = nil
    self.engine.unwatch(destination)
    self.unneeded += 1
  }

  /// Ends all streams of `watch` and of `Guard`: connd is stopping.
  mutating func endStreams() {
    self.tellOfNews()
    self.dropQuestions()
    for watcher in self.watchers.values.flatMap(\.values) { watcher.finish() }
    self.watchers = [:]
    for guardian in self.guardians.values { guardian.finish() }
    self.guardians = [:]
  }

  private mutating func path(to destination: Destination) -> (path: Path, isNews: Bool) {
    guard let kernel = self.kernel else { return (.unknown, false) }
    do throws(KernelUnavailable) {
      let found = try self.engine.followPath(to: destination, kernel, at: self.clock.now)
      guard self.engine.interests.isWider else { return found }
      // What is below a tunnel that it leads into may have changed before the filter knew of that.
      self.widenFilter()
      guard let kernel = self.kernel else { return (.unknown, false) }
      let read = try self.engine.followPath(to: destination, kernel, at: self.clock.now)
      return (read.path, found.isNews || read.isNews)
    } catch {
      self.lose(error)
      return (.unknown, false)
    }
  }

  /// Has the kernel tell of just what somebody needs now, and of `addresses`.
  private mutating func setFilter(
    beside addresses: [IPAddress] = [], _ kernel: any Kernel
  ) throws(KernelUnavailable) {
    var watched = self.engine.watchedByKernel
    watched.destinations += Set(addresses).subtracting(watched.destinations).sorted()
    if !self.filtered.isSuperset(of: watched.destinations) {
      self.engine.interests.unusedLinks.hearAll()
      watched.unheard = nil
    }
    try kernel.watch(watched)
    self.noteFilter(watched)
  }

  mutating func noteFilter(_ watched: Watched) {
    (self.filtered, self.unneeded) = (Set(watched.destinations), 0)
  }

  private mutating func updateFilter() {
    guard let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      try self.setFilter(kernel)
    } catch {
      self.lose(error)
    }
  }

  /// Has the kernel tell no more of links that nothing leads to, where many come and go.
  mutating func ignoreUnusedLinks(_ kernel: any Kernel) throws(KernelUnavailable) {
    // Where they cannot be listed, some just come and go; another time. A kernel that is lost shows at the next reading.
    let present = try? kernel.links()
    self.engine.interests.unusedLinks.ignore(after: present?.map(\.link.index))
    if present != nil { try self.setFilter(kernel) }
  }

  /// Lets routes pass for more addresses, if they do not yet.
  mutating func widenFilter(
    to addresses: [IPAddress], _ kernel: any Kernel
  ) throws(KernelUnavailable) {
    guard !addresses.allSatisfy(self.filtered.contains) else { return }
    try self.setFilter(beside: addresses, kernel)
  }

  /// Stops letting routes pass that nobody needs any more (D6). With many addresses only now and then: a filter costs as much
  /// as all of them.
  mutating func narrowFilter() {
    guard self.unneeded > 0, !self.engine.flows.isBusy, !self.hasRequests,
      self.abandonedFlows.isEmpty,
      self.filtered.count < 512 || 4 * self.unneeded > self.filtered.count
    else { return }
    self.updateFilter()
  }

  /// Has the filter let pass what concerns the gateways and the links in use, and looks at what may have come before it did.
  ///
  /// Where a gateway's address changes faster than this, as a hostile neighbour may have it, the rest is for the next turn.
  mutating func widenFilter() {
    for _ in 0..<Self.mostRounds where self.engine.interests.isWider {
      guard let kernel = self.kernel else { return }
      do throws(KernelUnavailable) {
        try self.setFilter(kernel)
        if let missed = try self.engine.acceptFilter(kernel) { self.read(.events(missed)) }
      } catch {
        self.lose(error)
      }
    }
  }

  private static let mostRounds = 8
}
