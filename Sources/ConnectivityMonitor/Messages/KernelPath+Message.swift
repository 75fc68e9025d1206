internal import Connectivity
internal import ConnectivityProtobuf

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
    writer.write(present: self.status.number, as: 1)
    if let reason = self.reason { writer.write(present: reason.number, as: 2) }
    if let interface = self.interface { writer.write(present: interface, as: 3) }
    for link in self.chain { writer.write(present: link.message, as: 4) }
    writer.write(present: self.medium.number, as: 5)
    if let source = self.source { writer.write(present: source.description, as: 6) }
    if let gateway = self.gateway { writer.write(present: gateway.description, as: 7) }
    if let table = self.table { writer.write(present: UInt64(table), as: 8) }
    if !self.isCostUnknown { writer.write(present: self.isExpensive, as: 9) }
    writer.write(self.isConstrained, as: 10)
    if let evidence = self.evidence { writer.write(present: evidence.message, as: 11) }
    if let length = self.sourcePrefixLength {
      writer.write(present: UInt64(clamping: length), as: 12)
    }
    writer.write(present: UInt64(clamping: self.guessedLinks), as: 13)
    if self.quality != .unknown { writer.write(present: self.quality.number, as: 15) }
    if self.validation != .unknown { writer.write(present: self.validation.message, as: 14) }
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
    writer.write(present: self.name, as: 1)
    writer.write(present: UInt64(self.index), as: 2)
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
    writer.write(present: self.state.number, as: 1)
    if let source = self.source { writer.write(present: source.number, as: 2) }
    if let portal = self.portal { writer.write(present: portal, as: 3) }
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
    writer.write(present: self.source.number, as: 1)
    writer.write(present: self.value, as: 2)
    writer.write(present: self.medium.number, as: 3)
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
