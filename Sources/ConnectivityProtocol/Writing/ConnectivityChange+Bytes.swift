public import Connectivity
internal import ConnectivityProtobuf

extension ConnectivityChange {
  /// Returns the bytes of a `WatchResponse`, as the generated code writes them. Hand-written,
  /// because connd does this for each change: messages would cost 4 % more instructions.
  ///
  /// - Parameter networkNamespace: The inode of connd's namespace, or 0 if unknown.
  public func watchResponse(networkNamespace: UInt64) -> [UInt8] {
    var writer = ProtobufWriter(reserving: 512)
    writer.write(self.generation, as: 1)
    switch self {
    case .transition(let transition):
      writer.message(as: 3) { $0.write(transition, networkNamespace) }
    case .path(let change):
      writer.message(as: 4) { $0.write(change, networkNamespace) }
    case .invalidation(let invalidation):
      writer.message(as: 5) { $0.write(invalidation) }
    case .dns:
      // DNS changes are rare.
      return Connectivity_V1_WatchResponse(self, networkNamespace: networkNamespace)
        .serializedBytes()
    }
    return writer.bytes
  }
}

// The fields in the order of their numbers in connectivity.proto.
extension ProtobufWriter {
  fileprivate mutating func write(_ transition: ConnectivityChange.Transition, _ namespace: UInt64)
  {
    self.write(transition.snapshot.generation, as: 1)
    self.write(Connectivity_V1_Category(transition.from), as: 2)
    self.write(Connectivity_V1_Category(transition.to), as: 3)
    self.write(transition.bounced, as: 4)
    self.message(as: 5) { $0.write(transition.cause) }
    self.message(as: 6) { $0.write(transition.snapshot, namespace) }
    self.message(as: 7) { $0.write(transition.time) }
  }

  fileprivate mutating func write(_ change: ConnectivityChange.PathChange, _ namespace: UInt64) {
    self.write(change.snapshot.generation, as: 1)
    self.message(as: 2) { $0.write(change.snapshot, namespace) }
    self.message(as: 3) { $0.write(change.cause) }
    self.message(as: 4) { $0.write(change.time) }
  }

  fileprivate mutating func write(_ invalidation: Invalidation) {
    self.write(invalidation.generation, as: 1)
    self.write(Connectivity_V1_InvalidationReason(invalidation.reason), as: 2)
    self.write(Connectivity_V1_InvalidationSeverity(invalidation.severity), as: 3)
    self.message(as: 4) { $0.write(invalidation.scope) }
    self.message(as: 5) { $0.write(invalidation.cause) }
    self.message(as: 6) { $0.write(invalidation.time) }
  }

  private mutating func write(_ scope: Invalidation.Scope) {
    if let interface = scope.interface { self.write(present: interface, as: 1) }
    if let family = scope.family {
      self.write(present: Connectivity_V1_AddressFamily(family), as: 2)
    }
    for address in scope.localAddresses ?? [] { self.write(present: address.description, as: 3) }
    switch scope.destination {
    case .address(let address): self.write(present: address.description, as: 4)
    case .offLink: self.message(as: 5) { _ in }
    case nil: break
    }
  }

  private mutating func write(_ snapshot: ConnectivitySnapshot, _ namespace: UInt64) {
    let status = snapshot.status
    self.write(snapshot.generation, as: 1)
    self.write(Connectivity_V1_Category(status.category), as: 2)
    self.write(Connectivity_V1_ThreeWayCategory(status.category.threeWay), as: 3)
    self.message(as: 4) { $0.write(snapshot.since) }
    self.message(as: 5) { flags in
      flags.write(status.flags.reachable, as: 1)
      flags.write(status.flags.connectionRequired, as: 2)
      flags.write(status.flags.isWWAN, as: 3)
    }
    if let interface = status.interface { self.write(present: interface, as: 6) }
    self.write(Connectivity_V1_Medium(status.medium), as: 7)
    if let costs = status.path.costsMoney { self.write(present: costs, as: 8) }
    self.write(status.isConstrained, as: 9)
    self.message(as: 10) { $0.write(status.ipv4) }
    self.message(as: 11) { $0.write(status.ipv6) }
    self.write(Connectivity_V1_AddressFamily(status.family), as: 12)
    self.write(namespace, as: 13)
    if let dns = snapshot.dns { self.message(as: 14) { $0.write(dns) } }
    self.write(status.path.constraint, as: 15)
  }

  private mutating func write(_ path: KernelPath) {
    self.write(Connectivity_V1_PathStatus(path.status), as: 1)
    if let reason = path.reason { self.write(present: Connectivity_V1_PathReason(reason), as: 2) }
    if let interface = path.interface { self.write(present: interface, as: 3) }
    for link in path.chain {
      self.message(as: 4) { message in
        message.write(link.name, as: 1)
        message.write(UInt64(link.index), as: 2)
      }
    }
    self.write(Connectivity_V1_Medium(path.medium), as: 5)
    if let source = path.source { self.write(present: source.description, as: 6) }
    if let gateway = path.gateway { self.write(present: gateway.description, as: 7) }
    if let table = path.table { self.write(present: UInt64(table), as: 8) }
    if let costs = path.costsMoney { self.write(present: costs, as: 9) }
    self.write(path.isConstrained, as: 10)
    if let evidence = path.evidence {
      self.message(as: 11) { message in
        message.write(Connectivity_V1_EvidenceSource(evidence.source), as: 1)
        message.write(evidence.value, as: 2)
        message.write(Connectivity_V1_Medium(evidence.medium), as: 3)
      }
    }
    if let length = path.sourcePrefixLength {
      self.write(present: UInt64(UInt32(clamping: length)), as: 12)
    }
    self.write(UInt64(clamping: path.guessedLinks), as: 13)
    if path.validation != .unknown { self.message(as: 14) { $0.write(path.validation) } }
    if path.quality != .unknown {
      self.write(present: Connectivity_V1_Quality(path.quality), as: 15)
    }
    if let objection = path.objection {
      self.write(present: Connectivity_V1_OtherWayReason(objection), as: 16)
    }
    self.write(path.constraint, as: 17)
  }

  private mutating func write(_ level: ConstraintLevel, as field: UInt32) {
    if level != .unconstrained {
      self.write(present: Connectivity_V1_ConstraintLevel(level), as: field)
    }
  }

  private mutating func write(_ validation: KernelPath.Validation) {
    self.write(Connectivity_V1_ValidationState(validation.state), as: 1)
    if let source = validation.source {
      self.write(Connectivity_V1_ValidationSource(source), as: 2)
    }
    if let portal = validation.portal { self.write(present: portal, as: 3) }
  }

  private mutating func write(_ dns: DNSSettings) {
    for server in dns.servers { self.write(present: server.description, as: 1) }
    for domain in dns.search { self.write(present: domain, as: 2) }
    for link in dns.links {
      self.message(as: 3) { message in
        message.write(link.interface, as: 1)
        for server in link.servers { message.write(present: server.description, as: 2) }
        for domain in link.search { message.write(present: domain, as: 3) }
      }
    }
  }

  private mutating func write(_ cause: ChangeCause) {
    self.write(Connectivity_V1_CauseTrigger(cause.trigger), as: 1)
    self.write(cause.change, as: 2)
    if let message = cause.message { self.write(present: message, as: 3) }
    if let interface = cause.interface { self.write(present: interface, as: 4) }
    self.write(cause.learntLate, as: 5)
  }

  private mutating func write(_ time: WallTime) {
    Google_Protobuf_Timestamp(time).write(to: &self)
  }
}
