import Connectivity
import ConnectivityRules
import LinuxSupport
import Netlink

/// The recorded requests of clients and the user to the monitor thread. They widen filters, fill
/// caches and take time, so that without them the kernel would be queried at other moments. In a
/// replay no client receives the answers.
enum RecordedInput {
  private enum Kind: UInt8 {
    case configure = 1
    case path, explain, listLinks, watch, drop, unwatch, admit, dismiss, add, remove, costs
    /// `admit` and `drop` with the client's account, which earlier versions did not record.
    case admitOfAccount, dropOfAccount
    case otherWay
    /// `explain` with links to compare.
    case explainCompared
    case judge, attempt
  }

  /// Returns the recorded form, or `nil` for an input without effect.
  static func encoded(_ input: Input) -> [UInt8]? {
    var fields = FieldWriter()
    func begin(_ kind: Kind) { fields.put(kind.rawValue) }
    switch input {
    case .awaitFirstReading, .count: return nil
    case .configure(let configuration, _):
      begin(.configure)
      fields.put(configuration.source.text)
    case .query(let query) where query.costs != nil:
      begin(.costs)
      fields.put(query.id)
      fields.put(query.account.number)
      fields.put(query.costs) { $0.put($1) }
    case .query(let query) where query.judged != nil:
      begin(.judge)
      fields.put(query.id)
      fields.put(query.account.number)
      fields.put(query.judged ?? []) { $0.put($1) }
    case .query(let query):
      let (kind, destination): (Kind, Destination?) =
        switch query.kind {
        case .path(let destination, _): (.path, destination)
        case .otherWay(let destination, _): (.otherWay, destination)
        case .attempt(let destination, _, _): (.attempt, destination)
        case .explain(let destination, let links, _):
          (links.isEmpty ? .explain : .explainCompared, destination)
        case .listLinks: (.listLinks, nil)
        case .watch(let destination, _): (.watch, destination)
        case .costs, .judge, .restOfLinks: (.costs, nil)
        }
      begin(kind)
      fields.put(query.id)
      fields.put(query.account.number)
      fields.put(destination) { $0.put($1) }
      if case .explain(_, let links, _) = query.kind, !links.isEmpty {
        fields.put(links) { $0.put($1) }
      }
      if case .attempt(_, let outcome, _) = query.kind { fields.put(outcome.rawValue) }
    case .drop(let id, let account):
      begin(.dropOfAccount)
      fields.put(id)
      fields.put(account.number)
    case .unwatch(let destination, let watcher):
      begin(.unwatch)
      fields.put(destination)
      fields.put(watcher)
    case .admit(let mailbox, _):
      begin(.admitOfAccount)
      fields.put(mailbox.number)
      fields.put(mailbox.account.number)
    case .dismiss(let number):
      begin(.dismiss)
      fields.put(number)
    case .flow(let request):
      begin(request.registration == nil ? .remove : .add)
      if let registration = request.registration {
        fields.put(registration)
        let question = registration.flow.question
        if question != .none { fields.put(question.rawValue) }
      } else {
        fields.put(request.key)
      }
    }
    return fields.bytes
  }

  static func decoded(_ bytes: [UInt8]) throws(FieldReader.Fault) -> Input {
    var fields = FieldReader(bytes)
    let input: Input
    switch try fields.choice(Kind.self) {
    case .configure:
      guard let configuration = try? Configuration.parse(try fields.text(), file: "") else {
        throw FieldReader.Fault()
      }
      input = .configure(configuration, .unheard)
    case .path:
      input = try self.query(&fields) { (destination) throws(FieldReader.Fault) in
        .path(try self.required(destination), .unheard)
      }
    case .otherWay:
      input = try self.query(&fields) { (destination) throws(FieldReader.Fault) in
        .otherWay(try self.required(destination), .unheard)
      }
    case .attempt:
      let (id, account) = (try fields.number(KernelQuery.ID.self), try fields.account())
      let destination = try fields.optional { (fields) throws(FieldReader.Fault) in
        try fields.destination()
      }
      let outcome = try fields.choice(AttemptOutcome.self)
      input = .query(
        KernelQuery(
          id: id, account: account,
          kind: .attempt(try self.required(destination), outcome, .unheard)))
    case .explain: input = try self.query(&fields) { .explain($0, links: [], .unheard) }
    case .explainCompared:
      let query = try self.query(&fields) { .explain($0, links: [], .unheard) }
      input = query.comparing(
        try fields.list { (fields) throws(FieldReader.Fault) in try fields.number() })
    case .judge:
      let (id, account) = (try fields.number(KernelQuery.ID.self), try fields.account())
      let connections = try fields.list { (fields) throws(FieldReader.Fault) in
        try fields.registration()
      }
      input = .query(
        KernelQuery(id: id, account: account, kind: .judge(connections, .unheard)))
    case .listLinks: input = try self.query(&fields) { _ in .listLinks(.unheard) }
    case .watch:
      input = try self.query(&fields) { (destination) throws(FieldReader.Fault) in
        .watch(try self.required(destination), .unheard)
      }
    case .costs:
      let (id, account) = (try fields.number(KernelQuery.ID.self), try fields.account())
      guard
        let request = try fields.optional({ (fields) throws(FieldReader.Fault) in
          try fields.costRequest()
        })
      else { throw FieldReader.Fault() }
      input = .query(KernelQuery(id: id, account: account, kind: .costs(request, .unheard)))
    case .drop: input = .drop(try fields.number(), of: .unknown)
    case .dropOfAccount: input = .drop(try fields.number(), of: try fields.account())
    case .unwatch: input = .unwatch(try fields.destination(), watcher: try fields.number())
    case .admit:
      let mailbox = UnheardMailbox(number: try fields.number(), account: .unknown)
      input = .admit(mailbox, .unheard)
    case .admitOfAccount:
      let mailbox = UnheardMailbox(number: try fields.number(), account: try fields.account())
      input = .admit(mailbox, .unheard)
    case .dismiss: input = .dismiss(try fields.number())
    case .add:
      var registration = try fields.registration()
      // New fields follow those of earlier versions.
      if !fields.isAtEnd { registration.flow.question = try fields.choice(PeerQuestion.self) }
      input = .flow(.add(registration))
    case .remove: input = .flow(.remove(try fields.key()))
    }
    guard fields.isAtEnd else { throw FieldReader.Fault() }
    return input
  }

  private static func query(
    _ fields: inout FieldReader,
    _ kind: (Destination?) throws(FieldReader.Fault) -> KernelQuery.Kind
  ) throws(FieldReader.Fault) -> Input {
    let (id, account) = (try fields.number(KernelQuery.ID.self), try fields.account())
    let destination = try fields.optional { (fields) throws(FieldReader.Fault) in
      try fields.destination()
    }
    return .query(KernelQuery(id: id, account: account, kind: try kind(destination)))
  }

  private static func required(
    _ destination: Destination?
  ) throws(FieldReader.Fault) -> Destination {
    guard let destination else { throw FieldReader.Fault() }
    return destination
  }
}

extension KernelQuery {
  /// The connections that it judges, or `nil` for any other query.
  fileprivate var judged: [FlowTable.Registration]? {
    if case .judge(let connections, _) = self.kind { connections } else { nil }
  }
}

extension Input {
  /// Returns a query for an explanation that compares these links.
  fileprivate func comparing(_ links: [UInt32]) -> Input {
    guard case .query(var query) = self, case .explain(let destination, _, let reply) = query.kind
    else { return self }
    query.kind = .explain(destination, links: links, reply)
    return .query(query)
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

extension FieldWriter {
  fileprivate mutating func put(_ destination: Destination) {
    self.put(destination.address.bytes)
    self.put(destination.uid)
    self.put(destination.mark)
    self.put(destination.source) { $0.put($1.bytes) }
    self.put(destination.outLink) { $0.put($1) }
    self.put(destination.transport) {
      $0.put($1.number)
      $0.put($1.localPort)
      $0.put($1.remotePort)
    }
  }

  fileprivate mutating func put(_ key: FlowTable.Key) {
    self.put(key.mailbox)
    self.put(key.id)
  }

  fileprivate mutating func put(_ registration: FlowTable.Registration) {
    self.put(registration.key)
    self.put(registration.flow.destination)
    self.put(registration.flow.local) { $0.put($1.bytes) }
    self.put(registration.flow.forbidsExpensive)
    self.put(registration.flow.forbidsConstrained)
    self.put(registration.knownPath) { $0.put($1.stored) }
    self.put(registration.sinceGeneration) { $0.put($1) }
  }
}

extension FieldReader {
  fileprivate mutating func account() throws(Fault) -> Account {
    Account(number: try self.number())
  }

  fileprivate mutating func address() throws(Fault) -> IPAddress {
    guard let address = IPAddress(bytes: try self.bytes()) else { throw Fault() }
    return address
  }

  fileprivate mutating func destination() throws(Fault) -> Destination {
    var destination = Destination(
      try self.address(), uid: try self.number(), mark: try self.number())
    destination.source = try self.optional { (fields) throws(Fault) in try fields.address() }
    destination.outLink = try self.optional { (fields) throws(Fault) in try fields.number() }
    destination.transport = try self.optional { (fields) throws(Fault) in
      Transport(
        try fields.number(), localPort: try fields.number(), remotePort: try fields.number())
    }
    if let source = destination.source, source.family != destination.address.family {
      throw Fault()
    }
    return destination
  }

  fileprivate mutating func key() throws(Fault) -> FlowTable.Key {
    FlowTable.Key(mailbox: try self.number(), id: try self.number())
  }

  /// Applies the same limits as `Guard`.
  fileprivate mutating func registration() throws(Fault) -> FlowTable.Registration {
    let (key, destination) = (try self.key(), try self.destination())
    let local = try self.optional { (fields) throws(Fault) in try fields.address() }
    if let local, local.family != destination.address.family { throw Fault() }
    let flow = Flow(
      destination, local: local, forbidsExpensive: try self.flag(),
      forbidsConstrained: try self.flag())
    let path = try self.optional { (fields) throws(Fault) -> KernelPath in
      guard let path = try? KernelPath(stored: try fields.bytes()),
        path.chain.count <= PathReader.deepest
      else { throw Fault() }
      return path.compared
    }
    let generation = try self.optional { (fields) throws(Fault) in try fields.number(UInt64.self) }
    return FlowTable.Registration(
      key: key, flow: flow, knownPath: path, sinceGeneration: generation)
  }
}
