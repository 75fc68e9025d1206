import Connectivity
import ConnectivityRules
import ConnectivityProtocol
import GRPCCore
import LinuxSupport
import UnixTransport

/// The `Guard` call: receives a client's requests and sends the events of its flows.
struct GuardService {
  /// The maximum length of a refusal in bytes. A refusal may repeat the client's text, and stays in
  /// memory until the client reads it (``GuardMailbox/costOfRequest``).
  static let maxRefusal = 1024

  let store: Store
  let monitor: Monitor
  let clients: ClientList
  let limiter: ConnectionLimiter

  func run(
    _ requests: RPCAsyncSequence<Connectivity_V1_GuardRequest, any Error>, _ peer: PeerCredentials,
    _ writer: RPCWriter<Connectivity_V1_GuardResponse>
  ) async throws {
    let memory = CallMemory(of: peer, self.limiter)
    guard let mailbox = await self.monitor.admitMailbox(of: peer.account, memory) else {
      throw RPCError.stopping
    }
    let client = self.clients.enter(peer, .flows(mailbox))
    defer {
      self.clients.leave(client)
      self.monitor.dismiss(mailbox)
    }
    try await withRPCCancellationHandler {
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          // A client that has half-closed the stream still receives events.
          try await self.take(requests, peer.uid, mailbox)
        }
        group.addTask {
          while let messages = await mailbox.next() {
            for message in messages {
              try await writer.write(Connectivity_V1_GuardResponse(message))
            }
          }
          throw self.store.isFinished ? RPCError.stopping : CancellationError()
        }
        defer { mailbox.finish() }
        // The first task that fails ends the other.
        while try await group.next() != nil {}
      }
    } onCancelRPC: {
      mailbox.finish()
    }
  }

  private func take(
    _ requests: RPCAsyncSequence<Connectivity_V1_GuardRequest, any Error>, _ caller: UInt32,
    _ mailbox: GuardMailbox
  ) async throws {
    var requests = requests.makeAsyncIterator()
    while await mailbox.accept(), let request = try await requests.next() {
      switch request.request {
      case .add(let flow):
        do throws(FlowRefusal) {
          let registration = try FlowTable.Registration(flow, of: caller, in: mailbox.number)
          self.monitor.submit(.flow(.add(registration)))
        } catch {
          self.refuse(flow.id, error, mailbox)
        }
      case .remove(let flow):
        let key = FlowTable.Key(mailbox: mailbox.number, id: flow.id)
        self.monitor.submit(.flow(.remove(key)))
      case .heard(let flow):
        let key = FlowTable.Key(mailbox: mailbox.number, id: flow.id)
        self.monitor.submit(.flow(GuardRequest(.heard(key))))
      case nil:
        self.refuse(0, .invalid("request: set add, remove or heard"), mailbox)
      }
    }
  }

  private func refuse(_ id: UInt64, _ refusal: FlowRefusal, _ mailbox: GuardMailbox) {
    mailbox.answer(id, .refused(refusal.bounded), generation: self.store.snapshot.generation)
  }
}

extension FlowRefusal {
  /// The refusal with at most ``GuardService/maxRefusal`` bytes of the message.
  var bounded: FlowRefusal {
    guard self.message.utf8.count > GuardService.maxRefusal else { return self }
    let message = String(decoding: self.message.utf8.prefix(GuardService.maxRefusal), as: UTF8.self)
    return FlowRefusal(code: self.code, message: message)
  }
}

extension FlowTable.Registration {
  /// Creates a registration from a client's message.
  ///
  /// - Parameters:
  ///   - caller: The client's user.
  ///   - mailbox: The number of the client's stream.
  /// - Throws: A refusal that names the invalid field.
  init(
    _ flow: Connectivity_V1_Flow, of caller: UInt32, in mailbox: UInt64
  ) throws(FlowRefusal) {
    let remote = try address(flow.remote, "add.remote")
    guard !flow.hasUser || flow.user == caller || caller == 0 else {
      throw .invalid("add.user: only root may name another user")
    }
    var destination = Destination(
      remote, uid: flow.hasUser ? flow.user : caller, mark: flow.mark)
    var local: IPAddress?
    if flow.hasLocal {
      let address = try address(flow.local, "add.local")
      guard address.family == remote.family else {
        throw .invalid(
          "add.local: \(address) must have the same address family as \(remote)")
      }
      local = address
    }
    if flow.hasInterface {
      guard let index = linkIndex(flow.interface) else {
        throw .invalid(
          // Longer than any valid name, so that the message shows the whole mistake.
          "add.interface: there is no link '\(flow.interface.prefix(256))'")
      }
      destination.outLink = index
    }
    do throws(ConversionError) {
      destination.transport = try Transport(flow)
    } catch {
      throw .invalid("add.\(error)")
    }
    self.init(
      key: .init(mailbox: mailbox, id: flow.id),
      flow: Flow(
        destination, local: local, forbidsExpensive: flow.forbidsExpensive,
        forbidsConstrained: flow.forbidsConstrained, question: PeerQuestion(flow.question),
        migrates: flow.migrates))
    if flow.hasKnownPath {
      // connd created the known path, so its chain has at most the links that connd follows, and
      // link names have the kernel's limit (IFNAMSIZ). connd keeps the chain, so it must be small.
      guard flow.knownPath.chain.count <= PathReader.maxDepth else {
        throw .invalid(
          "add.known_path: a path has at most \(PathReader.maxDepth) links")
      }
      guard flow.knownPath.chain.allSatisfy({ $0.name.utf8.count < 16 }) else {
        throw .invalid("add.known_path: a link name has at most 15 bytes")
      }
      do throws(ConversionError) {
        self.knownPath = try KernelPath(flow.knownPath).compared
      } catch {
        throw .invalid("add.known_path: \(error)")
      }
    }
    if flow.hasSinceGeneration { self.sinceGeneration = flow.sinceGeneration }
    self.isExisting = flow.existing
  }
}

private func address(_ text: String, _ field: String) throws(FlowRefusal) -> IPAddress {
  do throws(HostAddressError) {
    return try IPAddress(ofHost: text, field: field)
  } catch {
    throw .invalid(error.message)
  }
}

extension Connectivity_V1_GuardResponse {
  fileprivate init(_ message: GuardMailbox.Message) {
    self.init(
      message.id, message.event, generation: message.generation, askedUntil: message.askedUntil)
    self.networkNamespace = ProcessNamespace.reported
  }
}
