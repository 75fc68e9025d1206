import Connectivity
import ConnectivityRules
import Glibc

// The flows that clients guard, and the paths that they watch.
extension MonitorLoop {
  /// Whether flows are due for evaluation now. They wait during a pause, because messages may
  /// explain a loss.
  var flowsAreDue: Bool {
    self.kernel != nil && self.listens && self.engine.flows.isBusy
      && self.pauses.sweep.isOver(at: self.clock.now)
  }

  /// Evaluates the next slice of flows and notifies their clients.
  ///
  /// Waiting messages usually belong to the event that made the flows due, and would make them due
  /// again. The next pass therefore reads these messages first. It reads again if a flow would be
  /// destroyed while further messages may explain the loss (K8).
  mutating func evaluateFlows() {
    guard self.flowsAreDue, let kernel = self.kernel else { return }
    if self.messages.waits == 0, kernel.hasMessages { return self.awaitMessages() }
    self.messages.waits = max(self.messages.waits, 1)
    let isFinal = self.messages.waits == WaitingMessages.maxWaits
    let (clock, before) = (self.clock, self.engine.flows.count)
    let slice: FlowTable.Slice
    do throws(KernelUnavailable) {
      slice = try self.engine.evaluateFlows(kernel, isFinal: isFinal, at: clock.now) { clock.now }
    } catch {
      return self.lose(error)
    }
    self.filter.release(before - self.engine.flows.count)
    self.feed.statistics.spared.increment(by: self.engine.flows.takeSpared())
    self.guards.notify(slice.notifications, generation: self.engine.snapshot.generation)
    // On a single processor, the thread that writes to the client would wait for the work that
    // follows here, such as a new filter.
    if !slice.notifications.isEmpty { sched_yield() }
    if slice.awaitsMessages { self.awaitMessages() } else { self.messages.waits = 0 }
  }

  private mutating func awaitMessages() {
    self.messages.areDue = true
    self.messages.waits += 1
  }

  /// Removes flows of disconnected clients, and handles the next requests.
  mutating func handleRequests() {
    guard self.guards.isBusy else { return }
    let abandoned = self.guards.takeAbandoned()
    for key in abandoned { self.engine.flows.remove(key) }
    self.filter.release(abandoned.count)

    let requests = self.guards.takeRequests()
    guard !requests.isEmpty else { return }
    let worked = self.clock.worked
    // The filter is set before the reading, so that the kernel reports changes in between. A new
    // filter takes long, so it also passes the addresses of the registrations that wait.
    let registrations = requests.compactMap(\.registration)
    if !self.filter.passes(registrations.addresses) {
      self.widenFilter(to: (registrations + self.guards.waitingRegistrations).addresses)
    }
    let now = self.clock.now
    let (answers, failure) = self.engine.handle(
      requests, self.guards.limits, past: self.feed.store.past, self.kernel, at: now)
    let generation = self.engine.snapshot.generation
    for (request, answer) in zip(requests, answers) {
      if case .removed = answer { self.filter.release() }
      self.guards.answer(request, answer, generation: generation, at: now)
    }
    if self.kernel != nil, let failure { self.lose(failure) }
    self.guards.note(self.clock.worked - worked, for: requests.count)
  }

  // MARK: - Paths

  var pathsAreDue: Bool { self.kernel != nil && self.engine.watched.isBusy }

  /// Evaluates the next slice of the watched destinations and notifies their clients.
  mutating func evaluatePaths() {
    guard self.pathsAreDue, let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      for (destination, path) in try self.engine.evaluatePaths(kernel, at: self.clock.now) {
        self.watchers.publish(path, of: destination)
      }
    } catch {
      self.lose(error)
    }
  }

  /// Begins to watch the path to a destination for a client.
  mutating func watch(_ destination: Destination) -> PathWatch {
    let isNew = !self.watchers.contains(destination)
    let watch = self.watchers.add(destination)
    // The filter is set before the reading, so that the kernel reports changes in between.
    if isNew { self.engine.watch(destination, path: .unknown) }
    self.widenFilter(to: [destination.address])
    let found = self.path(to: destination)
    // The path may be new to other watchers, too, if the kernel's message about it is unread.
    if found.isNews {
      self.watchers.publish(found.path, of: destination)
    } else {
      self.watchers.publish(found.path, of: destination, to: watch.watcher)
    }
    return watch
  }

  private mutating func path(to destination: Destination) -> (path: KernelPath, isNews: Bool) {
    guard let kernel = self.kernel else { return (.unknown, false) }
    do throws(KernelUnavailable) {
      let found = try self.engine.followPath(to: destination, kernel, at: self.clock.now)
      guard self.engine.needsWiderFilter else { return found }
      // The path below a tunnel may have changed before the filter knew the tunnel.
      self.adaptFilter()
      guard let kernel = self.kernel else { return (.unknown, false) }
      let read = try self.engine.followPath(to: destination, kernel, at: self.clock.now)
      return (read.path, found.isNews || read.isNews)
    } catch {
      self.lose(error)
      return (.unknown, false)
    }
  }

  mutating func unwatch(_ destination: Destination, _ watcher: UInt64) {
    guard self.watchers.remove(watcher, of: destination) else { return }
    self.engine.unwatch(destination)
    self.filter.release()
  }

  /// The current numbers of clients, flows and watched paths.
  struct Counts: Sendable {
    var guardingClients: Int
    var guardedFlows: Int
    var watchedPaths: Int
    /// The number of flows of each client of `Guard`, by client number.
    var flowsOfClients: [UInt64: Int]
  }

  var counts: Counts {
    Counts(
      guardingClients: self.guards.count, guardedFlows: self.engine.flows.count,
      watchedPaths: self.watchers.count, flowsOfClients: self.engine.flows.counts)
  }
}

extension [FlowTable.Registration] {
  /// The addresses with routes that must pass the filter.
  fileprivate var addresses: [IPAddress] {
    self.flatMap { [$0.flow.destination.address] + ($0.flow.local.map { [$0] } ?? []) }
  }
}
