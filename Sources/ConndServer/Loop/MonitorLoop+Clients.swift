import Connectivity
import ConnectivityRules
import Netlink

extension MonitorLoop {
  /// Applies another configuration and reads everything again.
  mutating func configure(_ configuration: Configuration) {
    self.engine.configure(configuration)
    self.limits = configuration.limits
    self.updateFilter()
    self.step(.configuration)
  }

  struct Watch: Sendable {
    /// The current path, then each new one. A slow reader receives only the latest.
    var paths: AsyncStream<Path>
    /// The number to pass to `unwatch`.
    var watcher: UInt64
  }

  mutating func watch(_ destination: Destination) -> Watch {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Path.self, bufferingPolicy: .bufferingNewest(1))
    self.lastWatcher += 1
    let isNew = self.watchers[destination] == nil
    self.watchers[destination, default: [:]][self.lastWatcher] = continuation
    // Set the filter before reading, so that the kernel reports changes in between.
    if isNew { self.engine.watch(destination, path: .unknown) }
    if isNew, let kernel = self.kernel {
      do throws(KernelUnavailable) {
        try self.widenFilter(to: [destination.address], kernel)
      } catch {
        self.lose(error)
      }
    }
    let found = self.path(to: destination)
    // It may be new to other watchers too, because the kernel's message about it is still unread.
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

  /// Ends all streams of `watch` and `Guard` because connd is stopping.
  mutating func endStreams() {
    self.tellOfNews()
    self.dropQueries()
    for watcher in self.watchers.values.flatMap(\.values) { watcher.finish() }
    self.watchers = [:]
    for mailbox in self.mailboxes.values { mailbox.finish() }
    self.mailboxes = [:]
  }

  private mutating func path(to destination: Destination) -> (path: Path, isNews: Bool) {
    guard let kernel = self.kernel else { return (.unknown, false) }
    do throws(KernelUnavailable) {
      let found = try self.engine.followPath(to: destination, kernel, at: self.clock.now)
      guard self.engine.subscriptions.isWider else { return found }
      // The path below a tunnel may have changed before the filter knew the tunnel.
      self.widenFilter()
      guard let kernel = self.kernel else { return (.unknown, false) }
      let read = try self.engine.followPath(to: destination, kernel, at: self.clock.now)
      return (read.path, found.isNews || read.isNews)
    } catch {
      self.lose(error)
      return (.unknown, false)
    }
  }

  /// Subscribes to just what is needed now.
  private mutating func setFilter(_ kernel: any Kernel) throws(KernelUnavailable) {
    let watched = self.engine.filterSpec
    if !self.filtered.isSuperset(of: watched.destinations) {
      self.engine.subscriptions.ignoredLinks.hearAll()
    }
    try kernel.watch(self.engine.filterSpec(watched.destinations))
    self.noteFilter(watched)
  }

  mutating func noteFilter(_ watched: FilterSpec) {
    (self.filtered, self.unneeded) = (AddressList(watched.destinations), 0)
  }

  private mutating func updateFilter() {
    guard let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      try self.setFilter(kernel)
    } catch {
      self.lose(error)
    }
  }

  /// Stops messages about links that no path leads to, if many of them come and go.
  mutating func ignoreUnusedLinks(_ kernel: any Kernel) throws(KernelUnavailable) {
    // If the links cannot be listed, some are coming and going, and a later turn tries again. If
    // the kernel was lost, the next reading finds out.
    let present = try? kernel.links()
    self.engine.subscriptions.ignoredLinks.ignore(after: present?.map(\.link.index))
    if present != nil { try self.setFilter(kernel) }
  }

  /// Lets routes for more addresses pass the filter, if they do not yet. Addresses that are no
  /// longer needed stay until the filter is narrowed.
  mutating func widenFilter(
    to addresses: [IPAddress], _ kernel: any Kernel
  ) throws(KernelUnavailable) {
    guard !self.filtered.isSuperset(of: addresses) else { return }
    self.engine.subscriptions.ignoredLinks.hearAll()
    var wider = self.filtered
    wider.insert(addresses)
    try kernel.watch(self.engine.filterSpec(wider.all))
    self.filtered = wider
  }

  /// Stops passing routes that are no longer needed (D6). A filter costs as much as all its
  /// addresses, so with many addresses this happens only occasionally.
  mutating func narrowFilter() {
    guard self.unneeded > 0, !self.engine.flows.isBusy, !self.hasRequests,
      self.abandonedFlows.isEmpty,
      self.filtered.count < 512 || 4 * self.unneeded > self.filtered.count
    else { return }
    self.updateFilter()
  }

  /// Lets the filter pass what concerns the gateways and links in use, then reads what may have
  /// changed before.
  ///
  /// A hostile neighbour may change a gateway's address even faster. Then the next turn does the
  /// rest.
  mutating func widenFilter() {
    for _ in 0..<Self.mostRounds where self.engine.subscriptions.isWider {
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
