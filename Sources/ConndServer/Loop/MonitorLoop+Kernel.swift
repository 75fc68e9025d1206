import Connectivity
import ConnectivityRules
import Logging
import Netlink

// The kernel's messages, and the socket filter that passes them.
extension MonitorLoop {
  /// Whether kernel messages end a wait.
  var listens: Bool { self.pauses.overrun.end == nil }

  /// Reads a batch of the waiting messages, always before requests. A message that the kernel sent
  /// before a client registered a flow is not about that flow.
  mutating func readMessages(on woken: Waiter.Woken?) {
    let isRested = self.pauses.overrun.ends(by: self.clock.now)
    let areDue =
      woken?.hasMessages ?? false || isRested || self.guards.hasRequests || self.messages.areDue
    // Facts that were learnt before these messages apply first.
    guard areDue, self.listens, self.facts.isEmpty, let kernel = self.kernel else { return }
    var events: [KernelEvent] = []
    do throws(KernelUnavailable) {
      self.messages.areDue = try self.drain(kernel, into: &events)
    } catch {
      return self.lose(error)
    }
    if events.contains(where: \.isOfLink) { self.messages.haveNamedLinks = true }
    self.engine.validations.forget(after: events)
    let now = self.clock.now
    self.engine.conditions.note(events, at: now)
    if self.engine.mayMatter(events) || self.messages.mustRepeat { self.note(.events(events)) }
    self.messages.mustRepeat = false
    if !self.messages.areDue { self.engine.context.subscriptions.ignoredLinks.endDraining() }
  }

  private mutating func drain(
    _ kernel: any Kernel, into events: inout [KernelEvent]
  ) throws(KernelUnavailable) -> Bool {
    self.engine.context.subscriptions.ignoredLinks.beginToDrain()
    var mayHaveMore = try kernel.drain(into: &events)
    // When a path moves, its removal arrives before its replacement. That is not a loss (K8).
    if mayHaveMore || self.haveRemovedLink(events, kernel) {
      mayHaveMore = try kernel.drain(into: &events)
    }
    self.feed.statistics.count(events)
    for event in events { self.log(event) }
    return mayHaveMore
  }

  /// Whether a path's link that was set down no longer exists. The kernel removes a link before it
  /// answers a query for it, so the message about the removal is already waiting (T5).
  private func haveRemovedLink(_ events: [KernelEvent], _ kernel: any Kernel) -> Bool {
    events.contains { event in
      guard case .link(let link) = event, link.state == .down,
        self.engine.context.subscriptions.ignoredLinks.areUsing(link.index)
      else { return false }
      return (try? kernel.link(link.index)) == nil
    }
  }

  private mutating func log(_ event: KernelEvent) {
    let logger = self.feed.logger
    switch event {
    case .overrun:
      // With a small buffer and many messages, the next overrun happens before this line is
      // written.
      guard let suppressed = self.pauses.overrunLog.next(at: self.clock.now) else { return }
      logger.notice(
        "kernel messages were lost because they arrived too fast; reading everything again",
        metadata: suppressed > 0 ? ["suppressed": "\(suppressed)"] : nil)
    case .malformed(let text):
      logger.warning("malformed netlink message", metadata: ["message": "\(text)"])
    default: logger.trace("netlink", metadata: ["event": "\(event)"])
    }
  }

  mutating func report() {
    self.engine.context.takeRefusal().map { self.note(refusal: $0) }
    self.feed.flush()
    self.guards.count(self.engine.flows.count)
  }

  /// Handles a refused query. The path or flow that depends on it is unknown now.
  mutating func note(refusal: KernelUnavailable) {
    self.pauses.repetition.refused(at: self.clock.now)
    guard let suppressed = self.pauses.refusalLog.next(at: self.clock.now) else { return }
    var metadata: Logger.Metadata = ["error": "\(refusal)"]
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    self.feed.logger.warning(
      "the kernel refused a query; the path or flow is unknown until connd asks again",
      metadata: metadata)
  }

  // MARK: - The filter

  /// Whether the filter must change, because it passes too little or too much.
  var mustAdaptFilter: Bool {
    guard self.kernel != nil else { return false }
    return self.engine.needsWiderFilter || self.isFilterTooWide
  }

  private var isFilterTooWide: Bool {
    let needed = self.engine.flows.addressCounts.count + self.engine.watched.count
    return self.filter.isFull(with: needed)
      || self.filter.isTooWide && !self.engine.flows.isBusy && !self.guards.isBusy
  }

  /// Installs a filter that passes only what paths and clients need now (D6). If the old filter
  /// passed too little, notes that the kernel must be read.
  ///
  /// If a hostile neighbour changes a gateway's MAC address again while connd reads, the next turn
  /// continues.
  mutating func adaptFilter() {
    guard let kernel = self.kernel else { return }
    if self.engine.context.subscriptions.ignoredLinks.areLoud {
      // If the links cannot be listed, some are coming and going, and a later turn tries again. If
      // the kernel was lost, the next reading detects it.
      let present = try? kernel.links()
      self.engine.context.subscriptions.ignoredLinks.ignore(after: present?.map(\.link.index))
      if present != nil { self.installFilter(self.engine.filterSpec) }
    }
    guard self.mustAdaptFilter else { return }
    let isTooNarrow = self.engine.needsWiderFilter
    self.installFilter(self.engine.filterSpec)
    guard isTooNarrow, let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      if let missed = try self.engine.acceptFilter(kernel) { self.note(.events(missed)) }
    } catch {
      self.lose(error)
    }
  }

  /// Lets routes for more addresses pass. Clients' addresses that are no longer needed still pass
  /// until the filter is narrowed.
  mutating func widenFilter(to addresses: [IPAddress]) {
    guard self.kernel != nil, !self.filter.passes(addresses) else { return }
    self.installFilter(
      self.engine.filterSpec(self.filter.widened(to: addresses)), isExact: false)
  }

  mutating func installFilter(_ spec: FilterSpec, isExact: Bool = true) {
    guard let kernel = self.kernel else { return }
    var spec = spec
    let isWider = !self.filter.passes(spec.destinations)
    if isWider {
      // More routes pass, so any link may become reachable.
      self.engine.context.subscriptions.ignoredLinks.hearAll()
      spec.unheard = nil
    }
    do throws(KernelUnavailable) {
      try kernel.watch(spec)
      // The kernel announces some changes early, and the old filter may have dropped the message.
      if isWider { try kernel.waitForChanges() }
      self.filter.install(spec, isExact: isExact)
    } catch {
      self.lose(error)
    }
  }
}

/// The state of waiting kernel messages.
struct WaitingMessages {
  /// Whether the next pass reads messages even if nothing has woken the loop for them.
  var areDue = false
  /// Whether the next messages cause a reading even if they do not matter.
  var mustRepeat = false { didSet { if self.mustRepeat { self.areDue = true } } }
  /// Whether messages were about links and the fact sources were not notified yet.
  var haveNamedLinks = false
  /// How often the flows that are due have waited for messages that may explain their loss (K8).
  var waits = 0
  /// The maximum of `waits`: one before the first evaluation, and three after evaluations.
  static let maxWaits = 4
}

extension KernelEvent {
  fileprivate var isOfLink: Bool {
    switch self {
    case .link, .linkRemoved: true
    default: false
    }
  }
}
