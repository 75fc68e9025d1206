public import Connectivity
internal import ConnectivityRules

/// Methods that change the network. Each returns when connd has published the consequences. If
/// connd is not running, it detects the change when it starts.
extension SimulatedNetwork {
  /// Puts the machine on these networks only. Traffic uses the first one with a default route.
  ///
  /// Connections on removed networks lose their interface immediately. On remaining networks,
  /// traffic continues unless the default path has changed.
  public func become(_ networks: NetworkConditions...) { self.become(networks) }

  /// Puts the machine on these networks only.
  public func become(_ networks: [NetworkConditions]) {
    self.connd.change { simulation, now, time in
      simulation.change(at: now, time: time) { $0.become(networks) }
    }
  }

  /// Routes traffic to some destinations over a separate network, independent of the others.
  /// ``NetworkConditions/none`` means no route.
  ///
  /// - Parameters:
  ///   - destinations: An address, or a prefix such as `192.0.2.0/24`; loopback addresses are
  ///     allowed.
  ///   - network: The network. Its link exists as long as the route.
  ///   - isOnLink: Whether the destinations are on the link, without a gateway. A changed category
  ///     then does not affect them (I5).
  /// - Throws: ``SimulationError`` if `destinations` is invalid.
  public func route(
    _ destinations: String, by network: NetworkConditions, isOnLink: Bool = false
  ) throws {
    let prefix = try Self.prefix(destinations)
    self.connd.change { simulation, now, time in
      simulation.change(at: now, time: time) {
        $0.setRoute(prefix, .init(network: network, isOnLink: isOnLink))
      }
    }
  }

  /// Removes the special route to these destinations.
  ///
  /// - Throws: ``SimulationError`` if `destinations` is neither an address nor a prefix.
  public func removeRoute(_ destinations: String) throws {
    let prefix = try Self.prefix(destinations)
    self.connd.change { simulation, now, time in
      simulation.change(at: now, time: time) { $0.setRoute(prefix, nil) }
    }
  }

  private static func prefix(_ text: String) throws(SimulationError) -> IPPrefix {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    if let address = parts.first.flatMap({ IPAddress(String($0)) }),
      let length = parts.count == 1 ? address.family.bitWidth : Int(parts[1]),
      let prefix = IPPrefix(address, length: length)
    {
      return prefix
    }
    throw SimulationError("'\(text)' is neither an address nor a block of addresses")
  }

  /// Makes all links that are up go away and come back before connd reads the kernel. The category
  /// bounces (T2), and flows are in doubt but not dead.
  public func bounce() {
    self.connd.change { simulation, now, time in simulation.bounce(at: now, time: time) }
  }

  /// Changes the machine's DNS configuration.
  public func resolve(by settings: DNSSettings) {
    self.connd.change { simulation, _, time in simulation.resolve(by: settings, time: time) }
  }

  /// Simulates a sleep of this duration, and the wake-up (I6).
  public func wake(afterSleepOf duration: Duration) {
    self.connd.change { simulation, now, time in
      simulation.wake(after: duration, at: now, time: time)
    }
  }

  /// Publishes an invalidation of all channels, independent of the network.
  ///
  /// Subscribers receive the scope "everything", and each guarded flow receives the invalidation.
  /// With `destroy`, no flow is guarded afterwards.
  public func invalidate(
    _ reason: Invalidation.Reason = .networkChanged, _ severity: Invalidation.Severity = .destroy
  ) {
    let verdict = FlowTracker.Verdict(reason, severity)
    self.connd.change { simulation, _, time in
      guard simulation.isRunning else { return [] }
      return simulation.invalidateAll(verdict, .simulated, time: time)
        + simulation.invalidateFlows(simulation.flows.keys, verdict, .simulated)
    }
  }

  /// Invalidates some of the guarded flows, independent of the network. `Watch` does not report
  /// single flows.
  ///
  /// - Parameters:
  ///   - reason: The reason that clients receive.
  ///   - severity: The severity that clients receive.
  ///   - isMeant: Returns whether to invalidate a flow.
  public func invalidate(
    _ reason: Invalidation.Reason = .networkChanged, _ severity: Invalidation.Severity = .destroy,
    where isMeant: (GuardedFlow) throws -> Bool
  ) rethrows {
    let keys = try self.guardedFlows.filter(isMeant).map(\.key)
    let verdict = FlowTracker.Verdict(reason, severity)
    self.connd.change { simulation, _, _ in
      simulation.invalidateFlows(keys, verdict, .simulated)
    }
  }
}

// MARK: - Scripts

extension SimulatedNetwork {
  /// Plays a script, and returns when its last step is published.
  ///
  /// - Parameters:
  ///   - text: A script as described by ``NetworkScript``: `wifi, 2 s, none, cellular`.
  ///   - speed: How many times faster than the clock the script's time runs, including grace
  ///     periods. With `.infinity`, pauses do not wait, and events that are due in a pause happen
  ///     in order.
  /// - Throws: ``NetworkScriptError`` before anything is played; `CancellationError`; the errors of
  ///   ``start()``.
  public func play(_ text: String, speed: Double = 1) async throws {
    try await self.play(try NetworkScript(text), speed: speed)
  }

  /// Plays a script, and returns when its last step is published.
  ///
  /// - Parameters:
  ///   - script: The script.
  ///   - speed: How many times faster than the clock the script's time runs; see
  ///     ``play(_:speed:)-(String,_)``.
  /// - Throws: `CancellationError`; the errors of ``start()``.
  public func play(_ script: NetworkScript, speed: Double = 1) async throws {
    precondition(speed > 0, "a script has a speed")
    for step in script.steps {
      switch step {
      case .become(let networks): self.become(networks)
      case .pause(let duration): try await self.connd.pass(duration, speed: speed)
      case .bounce: self.bounce()
      case .stop: await self.stop()
      case .start: try await self.start()
      }
    }
  }

  /// Lets simulated time pass without waiting. Grace periods that expire in that time end.
  public func advance(by duration: Duration) { self.connd.pass(duration) }
}

extension ChangeCause {
  /// A cause without a kernel message.
  fileprivate static let simulated = ChangeCause(.configuration, "simulated")
}
