import Connectivity
import Logging
import Netlink

extension MonitorLoop {
  /// The flows of a client's stream, and of all of them: what is more is refused.
  static let mostFlows = (ofOneStream: 16_384, inAll: 131_072)

  mutating func admit(_ guardian: Guardian) {
    self.guardians[guardian.number] = guardian
  }

  mutating func dismiss(_ guardian: Guardian) {
    guard self.guardians.removeValue(forKey: guardian.number) != nil else { return }
    guardian.finish()
    self.registrations.removeAll(of: guardian.number)
    let flows = self.engine.guardedFlows(of: guardian.number)
    guard flows > 0 else { return }
    self.engine.removeFlows(of: guardian.number)
    self.isFilterWide = true
    self.logger.debug(
      "a client's flows are let go",
      metadata: ["flows": "\(flows)", "left": "\(self.engine.guardedFlows)"])
  }

  /// Guards a flow from the next turn on: many that come together cost one change of the filter.
  mutating func add(_ registration: FlowTable.Registration) {
    guard let guardian = self.guardians[registration.key.guardian] else { return }
    if self.registrations.contains(registration.key) || self.engine.isGuarded(registration.key) {
      self.answer(
        guardian, registration.key.id,
        .refused(.init(code: 3, message: "add.id: flow \(registration.key.id) is guarded already")))
    } else if let limit = self.exceededLimit(registration.key.guardian) {
      self.answer(guardian, registration.key.id, .refused(.init(code: 8, message: limit)))
    } else {
      self.registrations.append(registration)
    }
  }

  mutating func removeFlow(_ key: FlowTable.Key) {
    guard let guardian = self.guardians[key.guardian] else { return }
    self.register()
    guard self.engine.isGuarded(key) else {
      self.answer(
        guardian, key.id,
        .refused(.init(code: 3, message: "remove.id: no flow \(key.id) is guarded")))
      return
    }
    self.engine.removeFlow(key)
    self.isFilterWide = true
    guardian.answered()
  }

  private func exceededLimit(_ guardian: UInt64) -> String? {
    let waiting = self.registrations.count(of: guardian)
    if self.engine.guardedFlows(of: guardian) + waiting >= Self.mostFlows.ofOneStream {
      return "add: a stream guards at most \(Self.mostFlows.ofOneStream) flows"
    }
    if self.engine.guardedFlows + self.registrations.count >= Self.mostFlows.inAll {
      return "add: connd guards at most \(Self.mostFlows.inAll) flows"
    }
    return nil
  }

  /// Begins to guard what was added since the last turn.
  mutating func register() {
    guard !self.registrations.isEmpty else { return }
    let registrations = self.registrations.takeAll()
    // First the filter, then the reading: what changes in between is told.
    let addresses = registrations.map(\.flow.destination.address)
    do throws(KernelUnavailable) {
      guard let kernel = self.kernel else { throw KernelUnavailable.notOpen }
      try kernel.watch(self.engine.watchedByKernel.and(addresses))
      for registration in registrations {
        let event = try self.engine.guardFlow(registration, from: kernel, at: .now())
        guard let guardian = self.guardians[registration.key.guardian] else { continue }
        self.answer(guardian, registration.key.id, Guardian.Event(event))
      }
      if self.engine.hasNewGateways { try self.watchGateways(kernel) }
    } catch {
      for registration in registrations where !self.engine.isGuarded(registration.key) {
        guard let guardian = self.guardians[registration.key.guardian] else { continue }
        self.answer(
          guardian, registration.key.id,
          .refused(.init(code: 14, message: "the kernel cannot be asked: \(error)")))
      }
      if self.kernel != nil { self.lose(error) }
    }
  }

  private func answer(_ guardian: Guardian, _ id: UInt64, _ event: Guardian.Event) {
    guardian.post([
      .init(id: id, event: event, generation: self.engine.snapshot.generation, isAnswer: true)
    ])
  }

  /// Looks at the next slice of flows, and tells their clients.
  mutating func evaluateFlows() {
    guard self.engine.isBusy, let kernel = self.kernel else { return }
    do throws(KernelUnavailable) {
      let before = self.engine.guardedFlows
      let told = try self.engine.evaluateFlows(from: kernel, at: .now())
      if self.engine.guardedFlows < before { self.isFilterWide = true }
      let generation = self.engine.snapshot.generation
      for (number, told) in Dictionary(grouping: told, by: \.key.guardian) {
        self.guardians[number]?.post(
          told.map {
            .init(id: $0.key.id, event: Guardian.Event($0.event), generation: generation)
          })
      }
      if self.engine.hasNewGateways { try self.watchGateways(kernel) }
    } catch {
      self.lose(error)
    }
  }
}

extension Guardian.Event {
  fileprivate init(_ event: FlowTable.Event) {
    switch event {
    case .path(let path): self = .path(path)
    case .invalidation(let verdict, let cause, let path):
      self = .invalidation(verdict, cause, path)
    }
  }
}

extension Watched {
  fileprivate func and(_ addresses: [IPAddress]) -> Watched {
    var watched = self
    watched.destinations += addresses
    return watched
  }
}
