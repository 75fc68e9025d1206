import Connectivity
import ConnectivityRules
import LinuxSupport

// The recorded requests from clients and the user to the monitor thread.

extension RecordedInput {
  /// - Returns: `nil` for an input without effect.
  init?(_ input: Input) {
    self.init()
    switch input {
    case .awaitFirstReading, .count: return nil
    case .configure(let configuration, _): self.kind = .configure(configuration.source.text)
    case .query(let query):
      guard let query = Connd_Recording_V2_Query(query) else { return nil }
      self.kind = .query(query)
    case .drop(let id, let account):
      self.drop = .with {
        $0.query = id
        $0.account = account.number
      }
    case .unwatch(let destination, let watcher):
      self.unwatch = .with {
        $0.destination = .init(destination)
        $0.watcher = watcher
      }
    case .admit(let mailbox, _):
      self.admit = .with {
        $0.mailbox = mailbox.number
        $0.account = mailbox.account.number
      }
    case .dismiss(let number): self.dismiss = number
    case .flow(let request):
      self.kind =
        switch request.action {
        case .add(let registration), .addAgain(let registration): .add(.init(registration))
        case .remove(let key): .remove(.init(key))
        case .heard(let key): .heard(.init(key))
        }
    }
  }

  /// The request, or `nil` if the request is invalid. No client receives the answer.
  var input: Input? {
    switch self.kind {
    case .configure(let text)?:
      (try? Configuration.parse(text, file: "")).map { .configure($0, .unheard) }
    case .query(let query)?: query.query.map { .query($0) }
    case .drop(let drop)?: .drop(drop.query, of: Account(number: drop.account))
    case .unwatch(let unwatch)?:
      unwatch.destination.destination.map { .unwatch($0, watcher: unwatch.watcher) }
    case .admit(let client)?:
      .admit(
        UnheardMailbox(number: client.mailbox, account: Account(number: client.account)), .unheard)
    case .dismiss(let number)?: .dismiss(number)
    case .add(let registration)?: registration.registration.map { .flow(.add($0)) }
    case .remove(let key)?: .flow(.remove(key.key))
    case .heard(let key)?: .flow(GuardRequest(.heard(key.key)))
    case nil: nil
    }
  }
}

/// The mailbox of a recorded client. It discards all messages.
private struct UnheardMailbox: FlowMailbox {
  let number: UInt64
  let account: Account

  func post(_ messages: [GuardMailbox.Message]) {}
  func removed(_ flow: UInt64) {}
  func finish() {}
}

extension Connd_Recording_V2_Destination {
  init(_ destination: Destination) {
    self.init()
    self.address = destination.address.bytes
    (self.uid, self.mark) = (destination.uid, destination.mark)
    if let source = destination.source { self.source = source.bytes }
    if let link = destination.outLink { self.outLink = link }
    if let transport = destination.transport {
      self.transport.number = UInt32(transport.number)
      self.transport.localPort = UInt32(transport.localPort)
      self.transport.remotePort = UInt32(transport.remotePort)
    }
  }

  /// The destination, or `nil` if it is invalid.
  var destination: Destination? {
    guard let address = IPAddress(bytes: self.address) else { return nil }
    var destination = Destination(address, uid: self.uid, mark: self.mark)
    if self.hasSource {
      guard let source = IPAddress(bytes: self.source), source.family == address.family else {
        return nil
      }
      destination.source = source
    }
    if self.hasOutLink { destination.outLink = self.outLink }
    if self.hasTransport {
      guard let number = UInt8(exactly: self.transport.number),
        let localPort = UInt16(exactly: self.transport.localPort),
        let remotePort = UInt16(exactly: self.transport.remotePort)
      else { return nil }
      destination.transport = Transport(number, localPort: localPort, remotePort: remotePort)
    }
    return destination
  }
}

extension Connd_Recording_V2_Key {
  init(_ key: FlowTable.Key) {
    self.init()
    (self.mailbox, self.id) = (key.mailbox, key.id)
  }

  var key: FlowTable.Key { FlowTable.Key(mailbox: self.mailbox, id: self.id) }
}

extension Connd_Recording_V2_Registration {
  init(_ registration: FlowTable.Registration) {
    self.init()
    let flow = registration.flow
    self.key = .init(registration.key)
    self.destination = .init(flow.destination)
    if let local = flow.local { self.local = local.bytes }
    (self.forbidsExpensive, self.forbidsConstrained) =
      (flow.forbidsExpensive, flow.forbidsConstrained)
    if let path = registration.knownPath { self.knownPath = path.stored }
    if let generation = registration.sinceGeneration { self.sinceGeneration = generation }
    self.question = UInt32(flow.question.rawValue)
    self.existing = registration.isExisting
    self.migrates = flow.migrates
  }

  /// The registration, or `nil` if it is invalid. Applies the same limits as `Guard`.
  var registration: FlowTable.Registration? {
    guard let destination = self.destination.destination,
      let question = UInt8(exactly: self.question).flatMap(PeerQuestion.init)
    else { return nil }
    var local: IPAddress?
    if self.hasLocal {
      local = IPAddress(bytes: self.local)
      guard local?.family == destination.address.family else { return nil }
    }
    var path: KernelPath?
    if self.hasKnownPath {
      path = (try? KernelPath(stored: self.knownPath))?.compared
      guard let path, path.chain.count <= PathReader.maxDepth else { return nil }
    }
    var flow = Flow(
      destination, local: local, forbidsExpensive: self.forbidsExpensive,
      forbidsConstrained: self.forbidsConstrained)
    (flow.question, flow.migrates) = (question, self.migrates)
    return FlowTable.Registration(
      key: self.key.key, flow: flow, knownPath: path,
      sinceGeneration: self.hasSinceGeneration ? self.sinceGeneration : nil,
      isExisting: self.existing)
  }
}
