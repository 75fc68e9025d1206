import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol

struct GuardCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "guard", "Guard a connection: show its path, changes and invalidations.",
    usage: "connctl guard [<options>] (<remote> | --stdin)",
    discussion: """
      Shows the path to the remote host, and then each change and each invalidation. Ends when the \
      flow is destroyed. Uses the first address of a host name, in the family of --local if that is \
      given.

      With ports, the result is for exactly that connection, because routing rules and multipath \
      routes may depend on ports.

      For a TCP connection, says whether the kernel's lookup is proof, or netfilter may send its \
      packets elsewhere.

      Continues across restarts of connd. Messages about the connection to connd go to standard \
      error.

      With --stdin, guards many TCP connections. Each line of standard input is \
      “+<id> <remote> <local> [<name>]”, or “-<id>” to stop guarding one. The ends are addresses \
      with ports, and the same id replaces a connection. Prints JSON lines with “id” and “name”, \
      and ends with the input. The caller ends its connections itself.
      """,
    examples: [
      "connctl guard example.com:443", "connctl guard 203.0.113.9:22 --local 192.0.2.7:42912",
      "connctl guard db.example >/dev/null && systemctl restart replica",
      "coproc connctl guard --stdin",
    ],
    exit: "0 when the flow was destroyed, or with --stdin at the end of the input.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(
    help: "The remote end: a host name or an address, optionally with a port: [2001:db8::1]:443.",
    transform: Endpoint.init)
  var remote: Endpoint?

  @Flag(help: "Guard the connections that standard input names, and print JSON.")
  var stdin = false

  @Option(
    help: ArgumentHelp(
      "The connection's own address, optionally with a port. Default: the kernel's choice.",
      valueName: "address"),
    transform: AddressEndpoint.init)
  var local: AddressEndpoint?

  @Option(
    name: .customLong("protocol"),
    help: "The protocol: tcp or udp. With a port, the default is tcp.")
  var transportProtocol: TransportProtocol?

  @Option(
    help: ArgumentHelp("The link that the connection is bound to.", valueName: "name"),
    completion: .linkNames)
  var interface: String?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("The connection's mark (SO_MARK): 16 or 0x10.", valueName: "number"),
    transform: UInt32.readingMark)
  var mark: UInt32 = 0

  @Flag(
    name: [.customLong("forbid-metered"), .customLong("forbid-expensive")],
    help: "Treat the connection as invalid on a metered path.")
  var forbidExpensive = false

  @Flag(help: "Treat the connection as invalid on a constrained path.")
  var forbidConstrained = false

  func validate() throws {
    guard self.interface != "" else { throw ValidationError("--interface needs a name") }
    guard let remote = self.remote else {
      guard self.stdin else { throw ValidationError("a remote end or --stdin is required") }
      guard self.local == nil else {
        throw ValidationError("--local has no effect with --stdin")
      }
      return
    }
    guard !self.stdin else { throw ValidationError("use either a remote end or --stdin") }
    // An address can be checked without the resolver. For a name, the family selects among its
    // addresses.
    if let address = IPAddress(remote.host)?.unmapped,
      Self.choose([address], local: self.local?.address) == nil
    {
      throw self.otherFamily(remote)
    }
  }

  private func otherFamily(_ remote: Endpoint) -> ValidationError {
    ValidationError("“\(remote.host)” has no address of the family of --local")
  }

  func run(through connector: Connector) async throws {
    self.console.endWithReader()
    let flows = FlowGuard(socket: self.socket, through: connector)
    if let remote = self.remote {
      try await self.follow(remote, flows, connector)
    } else {
      try await CoprocessGuard(flows, on: self.console) { connection in
        self.flow(
          connection.remote.address, link: connection.remote.link ?? connection.local.link,
          local: connection.local.address, ports: (connection.local.port, connection.remote.port))
      }.run()
      // The input may end before connd reports anything.
      try await connector.checkNamespace(at: self.socket)
    }
  }

  /// Returns the flow of a connection, with the options of the command.
  private func flow(
    _ remote: IPAddress, link: String?, local: IPAddress?, ports: (local: UInt16, remote: UInt16)
  ) -> FlowGuard.Flow {
    var flow = FlowGuard.Flow(
      remote: remote, local: local, transport: self.transport(ports), mark: self.mark,
      interface: self.interface ?? link, forbidsExpensive: self.forbidExpensive,
      forbidsConstrained: self.forbidConstrained)
    // Another program made the connection, at an unknown time.
    flow.isNew = false
    return flow
  }

  private func follow(
    _ end: Endpoint, _ flows: FlowGuard, _ connector: Connector
  ) async throws {
    let host = try self.host(of: end)
    let remote = host.address
    flows.add(
      self.flow(
        remote, link: host.link ?? self.local?.link, local: self.local?.address,
        ports: (self.local?.port ?? 0, end.port)),
      id: 1)

    var isFirst = true
    // If no address is given, connd uses the source address of the first path that works.
    var local = self.local?.address
    while let event = await flows.next() {
      switch event {
      case .absent(.disconnected(let error)):
        guard !isFirst else { throw error }
        self.console.remark(ConndMessage.absent(error))
      case .resumed:
        self.console.remark(ConndMessage.back())
      case .question: continue
      case .absent(.elsewhere(let foreign)):
        throw foreign
      case .flow(_, _, .refused(let refusal)):
        if remote.needsLink, self.interface == nil, host.link == nil {
          throw ValidationError("\(remote) is link-local: add its link, as in \(remote)%eth0")
        }
        throw ConndError.invalidRequest(refusal.message)
      case .flow(_, let generation, let event):
        if let path = event.ownPath, path.status == .satisfied { local = local ?? path.source }
        try self.show(
          .flow(event, generation: generation, destination: remote, local: local),
          self.console.style.flow(
            event, destination: remote, isNew: isFirst, local: local, now: self.console.now()))
        if case .invalidation(let invalidation) = event, invalidation.severity == .destroy {
          return
        }
        if isFirst, let text = await self.proofRemark(remote, end.port, connector) {
          self.console.remark(text)
        }
      }
      isFirst = false
    }
  }

  /// Returns a remark on whether the kernel's lookup is proof (E0), or `nil` if the arguments do
  /// not name a TCP connection of this user.
  private func proofRemark(
    _ remote: IPAddress, _ port: UInt16, _ connector: Connector
  ) async -> String? {
    guard let local = self.local, local.port != 0, port != 0 else { return nil }
    var request = Connectivity_V1_ExplainRequest()
    (request.destination, request.remotePort) = (remote.description, UInt32(port))
    (request.local, request.localPort) = (local.address.description, UInt32(local.port))
    request.mark = self.mark
    // The answer is optional: the flow is guarded without it, too.
    let explanation = try? await connector.withServices(at: self.socket) { [request] connd in
      try await connd.call(ConndServices.Diagnostics.Explain.self, request)
    }
    guard let explanation, explanation.hasSocket else { return nil }
    let why = explanation.diversions.joined(separator: "; ")
    return why.isEmpty
      ? "the kernel’s lookup is proof: if it fails, the connection is lost"
      : "the kernel’s lookup is not proof: \(why). connd asks before it gives the connection up"
  }

  /// Returns the protocol and ports, or `nil` if neither is given.
  private func transport(_ ports: (local: UInt16, remote: UInt16)) -> Transport? {
    guard ports != (0, 0) || self.transportProtocol != nil else { return nil }
    return Transport(
      (self.transportProtocol ?? .tcp).number, localPort: ports.local, remotePort: ports.remote)
  }

  private func host(of end: Endpoint) throws -> Resolver.Host {
    let name = end.host
    let all = try Resolver.hosts(of: name)
    guard let address = Self.choose(all.map(\.address), local: self.local?.address),
      let host = all.first(where: { $0.address == address })
    else { throw self.otherFamily(end) }
    if all.count > 1 {
      self.console.remark("guarding \(address), one of \(all.count) addresses of \(name)")
    }
    return host
  }

  /// Returns the first address, as applications would choose. If `local` is given, only addresses
  /// of its family count.
  static func choose(_ addresses: [IPAddress], local: IPAddress?) -> IPAddress? {
    addresses.first { local == nil || $0.family == local?.family }
  }
}

/// A protocol with ports.
enum TransportProtocol: String, CaseIterable, ExpressibleByArgument {
  case tcp
  case udp

  /// The IANA number of the protocol.
  var number: UInt8 {
    switch self {
    case .tcp: Transport.tcp
    case .udp: Transport.udp
    }
  }
}
