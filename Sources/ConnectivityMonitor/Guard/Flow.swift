package import Connectivity
internal import ConnectivityProtocol

extension FlowGuard {
  /// A connection for connd to guard.
  package struct Flow: Hashable, Sendable {
    package var remote: IPAddress
    /// The connection's own address, or `nil` before it is connected. connd then uses the source
    /// address of the first path that works.
    package var local: IPAddress?
    /// The protocol and the known ports. `nil` means traffic without ports.
    package var transport: Transport?
    /// `SO_MARK`; 0 means none.
    package var mark: UInt32
    /// The link that the connection is bound to (`SO_BINDTODEVICE`).
    package var interface: String?
    package var forbidsExpensive: Bool
    package var forbidsConstrained: Bool
    /// How the owner can ask the peer (E4).
    package var question = PeerQuestion.none
    /// Whether the connection was made a moment ago. Only such a connection shows that connd is
    /// wrong if connd gives it up (I11).
    package var isNew = true
    /// The user of the connection, or `nil` for this process's user. Only root may set it.
    package var user: UInt32?

    package init(
      remote: IPAddress, local: IPAddress? = nil, transport: Transport? = nil, mark: UInt32 = 0,
      interface: String? = nil, forbidsExpensive: Bool = false, forbidsConstrained: Bool = false
    ) {
      self.remote = remote
      self.local = local
      self.transport = transport
      self.mark = mark
      self.interface = interface
      self.forbidsExpensive = forbidsExpensive
      self.forbidsConstrained = forbidsConstrained
    }
  }
}

extension Connectivity_V1_Flow {
  init(_ flow: FlowGuard.Flow, id: UInt64) {
    self.init()
    self.id = id
    self.remote = flow.remote.description
    if let local = flow.local { self.local = local.description }
    if flow.mark != 0 { self.mark = flow.mark }
    if let interface = flow.interface { self.interface = interface }
    self.forbidsExpensive = flow.forbidsExpensive
    self.forbidsConstrained = flow.forbidsConstrained
    if let transport = flow.transport { self.setTransport(transport) }
    self.question = Connectivity_V1_FlowQuestion(flow.question)
    self.existing = !flow.isNew
    if let user = flow.user { self.user = user }
  }
}
