public import Connectivity

extension Connectivity_V1_Path {
  public init(_ path: KernelPath) {
    self.init()
    self.status = Connectivity_V1_PathStatus(path.status)
    if let reason = path.reason { self.reason = Connectivity_V1_PathReason(reason) }
    if let interface = path.interface { self.interface = interface }
    self.chain = path.chain.map { Connectivity_V1_ChainLink($0) }
    self.medium = Connectivity_V1_Medium(path.medium)
    if let evidence = path.evidence { self.evidence = Connectivity_V1_Evidence(evidence) }
    if let source = path.source { self.source = source.description }
    if let length = path.sourcePrefixLength {
      self.sourcePrefixLength = UInt32(clamping: length)
    }
    if let gateway = path.gateway { self.gateway = gateway.description }
    if let table = path.table { self.table = table }
    if let costs = path.costsMoney { self.expensive = costs }
    self.constrained = path.isConstrained
    if path.isConstrained {
      self.constraintLevel = Connectivity_V1_ConstraintLevel(path.constraint)
    }
    self.guessedLinks = UInt32(clamping: path.guessedLinks)
    if path.validation != .unknown {
      self.validation = Connectivity_V1_Validation(path.validation)
    }
    if path.quality != .unknown { self.quality = Connectivity_V1_Quality(path.quality) }
    if let objection = path.objection {
      self.objection = Connectivity_V1_OtherWayReason(objection)
    }
  }
}

extension KernelPath {
  /// - Throws: ``ConversionError`` if an address is invalid.
  public init(_ message: Connectivity_V1_Path) throws(ConversionError) {
    self.init(
      status: KernelPath.Status(message.status),
      reason: message.hasReason ? KernelPath.Reason(known: message.reason) : nil,
      chain: message.chain.map { KernelPath.Link($0) },
      medium: NetworkMedium(message.medium),
      evidence: message.hasEvidence ? KernelPath.Evidence(message.evidence) : nil,
      source: message.hasSource ? try address(message.source, "source") : nil,
      sourcePrefixLength: message.hasSourcePrefixLength ? Int(message.sourcePrefixLength) : nil,
      gateway: message.hasGateway ? try address(message.gateway, "gateway") : nil,
      table: message.hasTable ? message.table : nil,
      isExpensive: message.hasExpensive ? message.expensive : nil,
      constraint: ConstraintLevel(message.constraintLevel, isConstrained: message.constrained))
    self.guessedLinks = min(Int(message.guessedLinks), self.chain.count)
    if message.hasQuality { self.quality = LinkQuality(message.quality) }
    if message.hasObjection { self.objection = OtherWay.Reason(message.objection) }
    if message.hasValidation { self.validation = KernelPath.Validation(message.validation) }
  }
}

extension Connectivity_V1_ChainLink {
  fileprivate init(_ link: KernelPath.Link) {
    self.init()
    self.name = link.name
    self.index = link.index
  }
}

extension KernelPath.Link {
  fileprivate init(_ message: Connectivity_V1_ChainLink) {
    self.init(index: message.index, name: message.name)
  }
}

func address(_ text: String, _ field: String) throws(ConversionError) -> IPAddress {
  guard let address = IPAddress(text) else {
    throw ConversionError(field, "“\(text)” is not an address")
  }
  return address
}

extension Connectivity_V1_Evidence {
  public init(_ evidence: KernelPath.Evidence) {
    self.init()
    self.source = Connectivity_V1_EvidenceSource(evidence.source)
    self.value = evidence.value
    self.medium = Connectivity_V1_Medium(evidence.medium)
  }
}

extension KernelPath.Evidence {
  public init(_ message: Connectivity_V1_Evidence) {
    self.init(
      KernelPath.Evidence.Source(message.source), message.value, NetworkMedium(message.medium))
  }
}

extension Connectivity_V1_Validation {
  fileprivate init(_ validation: KernelPath.Validation) {
    self.init()
    self.state = Connectivity_V1_ValidationState(validation.state)
    if let source = validation.source { self.source = Connectivity_V1_ValidationSource(source) }
    if let portal = validation.portal { self.portalUri = portal }
  }
}

extension KernelPath.Validation {
  fileprivate init(_ message: Connectivity_V1_Validation) {
    self.init(
      State(message.state), message.source == .unspecified ? nil : Source(message.source),
      portal: message.hasPortalUri ? message.portalUri : nil)
  }
}
