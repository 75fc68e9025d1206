import Connectivity
import ConnectivityMonitor

extension Style {
  /// Returns a line of `connctl watch`, or nothing for events of the connection rather than the
  /// network.
  func event(_ event: StatusEvent, now: WallTime) -> [String] {
    switch event {
    case .snapshot(let snapshot):
      self.row(now, Text("now", .faint), snapshot.status.headline)
    case .gap(let snapshot):
      self.row(now, Text("gap", .middling), "changes were missed; now \(snapshot.status.headline)")
    case .change(let change):
      self.row(change.time, change.headline, change.details)
    case .disconnected, .resumed:
      []
    }
  }

  /// Returns the lines of `connctl history` for one change and its consequences.
  func history(_ change: [ConnectivityChange]) -> [String] {
    FoldedChange(change).map {
      self.row($0.time, $0.headline, $0.details, dated: true)
    } ?? []
  }

  /// Returns a line of `connctl guard`, for a flow to `destination`.
  ///
  /// - Parameters:
  ///   - isNew: Whether nothing has been reported about the flow before.
  ///   - local: The flow's own address, if known.
  func flow(
    _ event: FlowEvent, destination: IPAddress, isNew: Bool = false, local: IPAddress? = nil,
    now: WallTime
  ) -> [String] {
    switch event {
    case .path(let path), .betterPathGone(let path):
      self.row(now, "path", "\(destination): \(path.text)")
    case .invalidation(let invalidation):
      self.row(
        now, invalidation.severity.headline,
        invalidation.details(obstacle: isNew ? invalidation.obstacle(local) : nil))
    case .refused:
      []
    }
  }

  /// Returns the line of an event.
  func row(
    _ time: WallTime, _ what: Text, _ details: String, dated: Bool = false
  ) -> [String] {
    let local = self.localTime(time)
    let time = dated ? Text.tied(local.date, local.time) : local.time
    // Wide enough for “cellular → wired”, so that lines of a stream are aligned although each is
    // printed separately.
    var table = Table([.init(minimum: 12), .init(minimum: 16)])
    table.add(Text(time, .faint), what, Text(details))
    return table.lines(self)
  }
}

extension ConnectivityChange {
  /// The change in one to three words.
  var headline: Text {
    switch self {
    case .transition(let transition): transition.headline
    case .path(let change): change.cause.trigger == .user ? "cost" : "path"
    case .invalidation(let invalidation): invalidation.severity.headline
    case .dns: "dns"
    }
  }

  /// The text after the headline.
  var details: String {
    switch self {
    case .transition(let transition): transition.details(transition.cause.text)
    case .path(let change): change.overrideText ?? change.details(change.cause.text)
    case .invalidation(let invalidation): invalidation.details
    case .dns(let change): "\(change.cause.text): \(change.settings.text)"
    }
  }
}

extension ConnectivityChange.Transition {
  fileprivate var headline: Text {
    if self.cause.isStart { return Text(Text.tied("connd", "started"), self.to.ink) }
    if self.from == self.to { return Text("\(self.to.rawValue) bounced", .middling) }
    return Text("\(self.from.rawValue) → \(self.to.rawValue)", self.to.ink)
  }

  /// Returns the text `via wlan0: route removed on eth0`, given the text of the cause.
  func details(_ cause: String) -> String {
    if self.cause.isStart { return self.snapshot.status.summary }
    // A link without traffic is not named.
    let interface = self.to == .offline ? nil : self.snapshot.status.interface
    return (interface.map { Text.tied("via", $0) + ": " } ?? "") + cause
      + (self.bounced && self.from != self.to ? ", after a bounce" : "")
  }
}

extension ConnectivityChange.PathChange {
  /// Returns the text of the paths, given the text of the cause.
  func details(_ cause: String) -> String {
    "\(self.snapshot.status.families + self.snapshot.status.costs): \(cause)"
  }
}

extension Invalidation {
  fileprivate var details: String { "\(self.scope.text): \(self.reason.text)" }
}

extension InvalidationError {
  /// - Parameter obstacle: A text that replaces the cause.
  fileprivate func details(obstacle: String?) -> String {
    let socket = self.socket.map { "; \($0.text(since: "the change"))" } ?? ""
    let now = self.path.map { "; now \($0.text)" } ?? ""
    return "\(self.reason.text): \(obstacle ?? self.cause.text)\(socket)\(now)"
  }

  /// Returns why a new flow is unusable. connd assumes that it died before, but the caller may have
  /// described a flow that never existed.
  fileprivate func obstacle(_ local: IPAddress?) -> String? {
    guard self.cause.trigger == .registration, self.cause.change == "diedBefore" else { return nil }
    switch self.reason {
    case .policy:
      let costs = [
        self.path?.isMetered == true ? "metered" : nil,
        self.path?.constraint.word,
      ].compactMap { $0 }
      return costs.isEmpty ? nil : "the path is \(costs.joined(separator: " and "))"
    case .sourceAddressLost:
      return local.map { "\($0) is not an address of this machine" }
    case .betterPath:
      guard let local, let interface = self.cause.interface else { return nil }
      return "\(local) is not an address of \(interface)"
    case .interfaceLost, .networkChanged, .categoryChanged, .resumed, .silent:
      return nil
    }
  }
}

extension KernelPath {
  /// The text `satisfied, wlan0 from 192.0.2.7 via 192.0.2.1, metered` or `requires connection:
  /// wlan0 has no carrier`.
  fileprivate var text: String {
    guard self.status == .satisfied else {
      return self.status.text + (self.reason.map { ": " + $0.text(of: self.interface) } ?? "")
    }
    let route = [self.interface, self.route].compactMap { $0 }
    return ([self.status.text] + (route.isEmpty ? [] : [route.joined(separator: " ")]))
      .joined(separator: ", ") + self.costs
  }
}

extension ConnectivityStatus {
  fileprivate var headline: String { self.summary + self.costs }

  /// The text `ipv4 wlan0 from 192.0.2.7, ipv6 none`.
  var families: String {
    AddressFamily.allCases.map { family in
      let path = self[family]
      if self.isUnused(family) { return "\(family.rawValue) none" }
      var parts = [family.rawValue]
      if path.status != .satisfied { parts.append(path.status.text) }
      if let interface = path.interface { parts.append(interface) }
      if let source = path.source { parts.append(Text.tied("from", source.description)) }
      return parts.joined(separator: " ")
    }.joined(separator: ", ")
  }
}
