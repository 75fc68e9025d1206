import Connectivity
import ConnectivityRules
import TestKit

@testable import ConndServer

/// connd and its clients: they start, register flows, and read what they are sent.
extension Simulation {
  func startDaemon() {
    self.daemon.start()
    for index in self.streams.indices { self.streams[index].connect(to: self.daemon.store) }
    for index in self.guards.indices {
      self.guards[index].mailbox = GuardMailbox(self.guards[index].number)
      self.daemon.admit(self.guards[index].mailbox)
    }
    self.turn()
  }

  /// connd dies, and restarts with its stored history, if that was not lost.
  func restart() async {
    await self.readGuards(all: true)
    let hasHistory = !self.random.oneIn(4)
    self.note(hasHistory ? "restart" : "restart without the history")
    self.record.restarted(hasHistory: hasHistory)
    self.record.isRegistering = true
    // The history is stored as bytes. Not all of them are parsed, because that takes long and they
    // are alike.
    let past = self.daemon.store.past
    let read = past.suffix(8).compactMap { try? Published(decoding: $0.message) }
    if read.map(\.change) != past.suffix(8).map(\.change) {
      self.fail("D5: read otherwise than written")
    }
    self.kernel.interference = nil
    if self.random.oneIn(2) { self.happen() }
    for index in self.streams.indices { self.streams[index].disconnect(from: nil) }
    self.daemon = Daemon(
      self.configuration, past: hasHistory ? past.dropLast(read.count) + read : [],
      after: hasHistory ? 0 : UInt64(self.now.milliseconds) * 1000, self.kernel, self.mutation,
      self.writer)
    self.startDaemon()
    self.registerAgain()
  }

  /// The clients of `Guard` register their flows again, with their last knowledge.
  private func registerAgain() {
    self.flows.removeAll(where: \.isOver)
    for index in self.flows.indices { self.flows[index].isRegisteredAgain(in: self.kernel.network) }
    let registrations = self.flows.map { flow in
      FlowTable.Registration(
        key: flow.key, flow: flow.flow, knownPath: flow.made == nil ? nil : flow.told,
        sinceGeneration: self.record.lastGeneration)
    }
    self.record.isRegistering = false
    self.register(registrations)
    if self.mutation == .restartDestroys {
      self.daemon.destroyAll()
      self.turn()
    }
  }

  func registerFlows() {
    var registrations: [FlowTable.Registration] = []
    for _ in 0..<self.random.number(1...3) where self.flows.count(where: { !$0.isOver }) < 15 {
      guard let flow = self.randomFlow() else { continue }
      let client = self.random.number(0...self.guards.count - 1)
      let key = self.guards[client].nextKey()
      self.flows.append(GuardedFlow(key, flow))
      registrations.append(.init(key: key, flow: flow))
    }
    if !registrations.isEmpty { self.register(registrations) }
  }

  private func register(_ registrations: [FlowTable.Registration]) {
    self.note(
      "registers \(registrations.map { "\($0.key.mailbox)/\($0.key.id) \($0.flow.summary)" })"
    )
    self.record.lastReasonToAsk = self.now
    self.daemon.keys = self.flows.filter { !$0.isLocal || self.mutation == .sparesNobody }.map(
      \.key)
    self.kernel.expectQuestions()
    self.daemon.register(registrations)
    self.look()
    self.turn()
  }

  private func randomFlow() -> Flow? {
    let network = self.kernel.network
    let links = network.uplinks
    let neighbour = links.randomElement(using: &self.random)?.host(.ipv4, 99).address
    let far = IPAddress.bytes([203, 0, 113, UInt8(self.random.number(1...3))])
    let far6 = IPAddress.bytes(
      [0x20, 0x01, 0x0d, 0xb8, 0xff] + [UInt8](repeating: 0, count: 10) + [9])
    let address = self.random.pick(
      [
        far, far, far, far6, far6, ModelNetwork.elsewhere, neighbour ?? far,
        .bytes([127, 0, 0, 1]),
      ])
    var destination = Destination(address)
    if !self.random.oneIn(3) {
      self.lastPort = self.lastPort < 60_000 ? self.lastPort + 1 : 40_000
      destination.transport = Transport(
        Transport.tcp, localPort: self.lastPort, remotePort: self.random.pick([443, 443, 80]))
    }
    if self.random.oneIn(12) {
      destination.outLink = links.randomElement(using: &self.random)?.index
    }
    let path = network.path(to: destination)
    guard path.status == .satisfied || self.random.oneIn(6) else { return nil }
    let isConnected = path.status == .satisfied && !self.random.oneIn(4)
    var local = isConnected ? path.source : nil
    // A socket bound to an address of a block that is local as a whole.
    if isConnected, address.family == .ipv4, !address.isLoopback, network.local != nil,
      self.random.oneIn(6)
    {
      local = .bytes([198, 18, 0, 7])
    }
    let flow = Flow(
      destination, local: local, forbidsExpensive: self.random.oneIn(6),
      question: self.random.pick([.none, .keepalive, .ping]))
    if flow.namesSocket {
      destination.source = local
      var kind = self.randomKind(besides: path.chain.first)
      (kind.question, kind.isStopped) = (flow.question, self.random.oneIn(8))
      self.kernel.connect(destination, kind)
    }
    return flow
  }

  /// Half of all connections are active, and half of these take another way than the lookup's.
  private func randomKind(besides link: KernelPath.Link?) -> ModelConnection.Kind {
    let network = self.kernel.network
    let others = network.links.filter { other in
      [.wired, .wifi, .cellular].contains(other.sort) && other.master == nil
        && other.index != link?.index && network.link(other.index)?.state == .up
    }
    let isMarked = self.random.oneIn(2)
    return ModelConnection.Kind(
      isActive: !self.random.oneIn(2),
      markedLink: isMarked ? others.randomElement(using: &self.random)?.index : nil,
      isQueued: self.random.oneIn(4),
      hearsCopies: self.random.oneIn(4),
      roundTrip: .milliseconds(self.random.pick([1, 1, 20, 60, 300])))
  }

  func removeFlow() {
    guard let flow = self.flows.randomElement(using: &self.random), !flow.isOver else { return }
    self.daemon.remove(flow.key)
    if let port = flow.port { self.kernel.close(port) }
    self.flows.removeAll { $0.key == flow.key }
    for index in self.guards.indices where self.guards[index].number == flow.key.mailbox {
      self.guards[index].forget(flow.key.id)
    }
  }

  /// A client of the stream reconnects, or goes away for a while.
  func reconnect() {
    let index = self.random.number(0...self.streams.count - 1)
    if self.streams[index].isConnected {
      self.streams[index].disconnect(from: self.daemon.store)
    } else {
      self.streams[index].connect(to: self.daemon.store, asNew: self.random.oneIn(5))
    }
  }

  func readClients() async {
    for index in self.streams.indices where self.steps % self.streams[index].laziness == 0 {
      if let wrong = self.streams[index].read(from: self.daemon.store) {
        self.fail(wrong)
      }
    }
    await self.readGuards()
  }

  private func readGuards(all: Bool = false) async {
    for index in self.guards.indices where all || self.steps % self.guards[index].laziness == 0 {
      guard self.record.waiting.remove(self.guards[index].number) != nil else { continue }
      if let wrong = await self.guards[index].take() { self.fail(wrong) }
      for flow in self.flows where flow.key.mailbox == self.guards[index].number {
        let told = self.guards[index].told[flow.key.id]
        if told != .some(flow.isOver ? .none : flow.told) {
          self.fail("I9: what the client was told of flow \(flow.key) is not what became of it")
        }
      }
    }
    // Both have received its end.
    self.flows.removeAll { $0.isOver && !self.record.waiting.contains($0.key.mailbox) }
  }
}

extension Flow {
  fileprivate var summary: String {
    "to \(self.destination.address) from \(self.local.map { "\($0)" } ?? "?")"
  }
}
