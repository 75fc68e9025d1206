public import Connectivity
internal import ConnectivityRules

/// What happens to the network. Each returns when connd has published what follows from it; where connd does not run,
/// it finds out when it starts.
extension SimulatedNetwork {
  /// The machine is on these networks now, and on no others; traffic goes by the first that has a default route.
  ///
  /// What was on a network that is not there any more has lost its interface, at once. On one that is still there,
  /// traffic goes on, unless the default path is another now.
  public func become(_ networks: NetworkConditions...) { self.become(networks) }

  /// As with separate parameters.
  public func become(_ networks: [NetworkConditions]) {
    self.connd.change { simulation, now, time in
      simulation.change(at: now, time: time) { $0.become(networks) }
    }
  }

  /// Traffic to some destinations goes by a network of its own, whatever the others become; with
  /// ``NetworkConditions/none`` it goes nowhere.
  ///
  /// - Parameters:
  ///   - destinations: An address, or a block as `192.0.2.0/24`; loopback addresses as well.
  ///   - network: By which network: its link is there for as long as the route is.
  ///   - isOnLink: The destinations are on the link. What is behind no gateway, a changed category does not concern
  ///     (I5).
  /// - Throws: ``SimulationError`` for what is neither.
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

  /// Traffic to these destinations goes where all goes.
  ///
  /// - Throws: ``SimulationError`` for what is neither an address nor a block.
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

  /// All links that are up go and come back, faster than anybody looks: the category bounces (T2), and flows are in
  /// doubt, not dead.
  public func bounce() {
    self.connd.change { simulation, now, time in simulation.bounce(at: now, time: time) }
  }

  /// The machine asks others for names.
  public func resolve(by settings: DNSSettings) {
    self.connd.change { simulation, _, time in simulation.resolve(by: settings, time: time) }
  }

  /// The machine slept for so long, and wakes (I6).
  public func wake(afterSleepOf duration: Duration) {
    self.connd.change { simulation, now, time in
      simulation.wake(after: duration, at: now, time: time)
    }
  }

  /// Publishes an invalidation of all channels, whatever became of the network.
  ///
  /// Followers of the stream are told of the scope "everything", and every guarded flow is told; with `destroy` none is
  /// guarded any more.
  public func invalidate(
    _ reason: Invalidation.Reason = .categoryChanged, _ severity: Invalidation.Severity = .destroy
  ) {
    let verdict = FlowTracker.Verdict(reason, severity)
    self.connd.change { simulation, _, time in
      guard simulation.isRunning else { return [] }
      return simulation.invalidateAll(verdict, .simulated, time: time)
        + simulation.invalidateFlows(simulation.flows.keys, verdict, .simulated)
    }
  }

  /// Invalidates some of the guarded flows, whatever became of the network. The stream says nothing of single flows.
  ///
  /// - Parameter isMeant: Which of the flows that are guarded now.
  public func invalidate(
    _ reason: Invalidation.Reason = .categoryChanged, _ severity: Invalidation.Severity = .destroy,
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
  /// Plays a script; returns when its last step is published.
  ///
  /// - Parameters:
  ///   - text: As ``NetworkScript`` describes it: `wifi, 2 s, none, cellular`.
  ///   - speed: How many times faster than the clock the script's time goes, graces included; `.infinity`: nothing
  ///     waits, and what becomes due in a pause happens in its order.
  /// - Throws: ``NetworkScriptError`` before anything is played; `CancellationError`; what ``start()`` throws.
  public func play(_ text: String, speed: Double = 1) async throws {
    try await self.play(try NetworkScript(text), speed: speed)
  }

  /// Plays a script; returns when its last step is published.
  ///
  /// - Parameters:
  ///   - script: What happens.
  ///   - speed: How many times faster than the clock the script's time goes; see ``play(_:speed:)-(String,_)``.
  /// - Throws: `CancellationError`; what ``start()`` throws.
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

  /// Has simulated time pass at once: graces that end meanwhile are over.
  public func advance(by duration: Duration) { self.connd.pass(duration) }
}

extension Cause {
  /// No kernel said so.
  fileprivate static let simulated = Cause(.configuration, "simulated")
}
