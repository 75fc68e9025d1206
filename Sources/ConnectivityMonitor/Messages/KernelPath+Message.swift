internal import Connectivity

// Unknown values come from a newer connd, and are read as in the .proto files.

extension KernelPath {
  /// - Throws: ``ProtobufError`` if it is malformed.
  init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(status: .unknown)
    self.isCostUnknown = true
    var guessedLinks = 0
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.status = Status(number: field.int32) ?? .unknown
      case 2: self.reason = Reason(number: field.int32)
      case 4: self.chain.append(try PathLink(message: field.message ?? []))
      case 5: self.medium = Medium(number: field.int32) ?? .unknown
      case 6: self.source = try IPAddress(message: try field.string)
      case 7: self.gateway = try IPAddress(message: try field.string)
      case 8: self.table = field.uint32
      case 9: (self.isExpensive, self.isCostUnknown) = (field.bool ?? false, false)
      case 10: self.isConstrained = field.bool ?? false
      case 11: self.evidence = try Evidence(message: field.message ?? [])
      case 12: self.sourcePrefixLength = field.uint32.map { Int($0) }
      case 13: guessedLinks = Int(field.uint32 ?? 0)
      case 15: self.quality = LinkQuality(number: field.int32) ?? .unknown
      case 14: self.validation = try Validation(message: field.message ?? [])
      default: break
      }
    }
    self.guessedLinks = min(guessedLinks, self.chain.count)
  }

  /// The message.
  var message: [UInt8] {
    var writer = ProtobufWriter()
    writer.put(1, self.status.number)
    if let reason = self.reason { writer.put(2, reason.number) }
    if let interface = self.interface { writer.put(3, interface) }
    for link in self.chain { writer.put(4, message: link.message) }
    writer.put(5, self.medium.number)
    if let source = self.source { writer.put(6, source.description) }
    if let gateway = self.gateway { writer.put(7, gateway.description) }
    if let table = self.table { writer.put(8, UInt64(table)) }
    if !self.isCostUnknown { writer.put(9, self.isExpensive ? 1 : 0) }
    writer.put(10, self.isConstrained)
    if let evidence = self.evidence { writer.put(11, message: evidence.message) }
    if let length = self.sourcePrefixLength { writer.put(12, UInt64(clamping: length)) }
    writer.put(13, UInt64(clamping: self.guessedLinks))
    if self.quality != .unknown { writer.put(15, self.quality.number) }
    if self.validation != .unknown { writer.put(14, message: self.validation.message) }
    return writer.bytes
  }
}

extension PathLink {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(index: 0, name: "")
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.name = try field.string ?? ""
      case 2: self.index = field.uint32 ?? 0
      default: break
      }
    }
  }

  fileprivate var message: [UInt8] {
    var writer = ProtobufWriter()
    writer.put(1, self.name)
    writer.put(2, UInt64(self.index))
    return writer.bytes
  }
}

extension Validation {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(.unknown)
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.state = State(number: field.int32) ?? .unknown
      case 2: self.source = Source(number: field.int32) ?? .networkd
      case 3: self.portal = try field.string
      default: break
      }
    }
  }

  fileprivate var message: [UInt8] {
    var writer = ProtobufWriter()
    writer.put(1, self.state.number)
    if let source = self.source { writer.put(2, source.number) }
    if let portal = self.portal { writer.put(3, portal) }
    return writer.bytes
  }
}

extension Evidence {
  fileprivate init(message: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init(.none, "", .unknown)
    try ProtobufReader.read(message) { (field) throws(ProtobufError) in
      switch field.number {
      case 1: self.source = Source(number: field.int32) ?? .none
      case 2: self.value = try field.string ?? ""
      case 3: self.medium = Medium(number: field.int32) ?? .unknown
      default: break
      }
    }
  }

  fileprivate var message: [UInt8] {
    var writer = ProtobufWriter()
    writer.put(1, self.source.number)
    writer.put(2, self.value)
    writer.put(3, self.medium.number)
    return writer.bytes
  }
}

extension IPAddress {
  init(message text: String?) throws(ProtobufError) {
    guard let text, let address = IPAddress(text) else {
      throw ProtobufError("“\(text ?? "")” is not an address")
    }
    self = address
  }
}
