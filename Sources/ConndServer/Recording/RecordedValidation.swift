import Connectivity
import ConnectivityRules

extension ConnectivityChecks {
  static func encoded(_ checks: [String: ConnectivityChecks]) -> [UInt8] {
    var fields = FieldWriter()
    fields.put(UInt32(clamping: checks.count))
    for (name, checks) in checks.sorted(by: { $0.key < $1.key }) {
      fields.put(name)
      for state in [checks.ipv4, checks.ipv6] { fields.put(state) { $0.put($1.rawValue) } }
    }
    return fields.bytes
  }

  static func decoded(_ bytes: [UInt8]) throws(FieldReader.Fault) -> [String: ConnectivityChecks] {
    var fields = FieldReader(bytes)
    var checks: [String: ConnectivityChecks] = [:]
    for _ in 0..<(try fields.number(UInt32.self)) {
      let name = try fields.text()
      checks[name] = ConnectivityChecks(
        ipv4: try Self.state(&fields), ipv6: try Self.state(&fields))
    }
    guard fields.isAtEnd else { throw FieldReader.Fault() }
    return checks
  }

  private static func state(
    _ fields: inout FieldReader
  ) throws(FieldReader.Fault) -> Validation.State? {
    try fields.optional { (fields) throws(FieldReader.Fault) -> Validation.State in
      guard let state = Validation.State(rawValue: try fields.text()) else {
        throw FieldReader.Fault()
      }
      return state
    }
  }
}

extension PortalAdvertisement {
  static func encoded(_ portals: [String: String]) -> [UInt8] {
    var fields = FieldWriter()
    fields.put(UInt32(clamping: portals.count))
    for (name, portal) in portals.sorted(by: { $0.key < $1.key }) {
      fields.put(name)
      fields.put(portal)
    }
    return fields.bytes
  }

  static func decoded(_ bytes: [UInt8]) throws(FieldReader.Fault) -> [String: String] {
    var fields = FieldReader(bytes)
    var portals: [String: String] = [:]
    for _ in 0..<(try fields.number(UInt32.self)) {
      portals[try fields.text()] = try fields.text()
    }
    guard fields.isAtEnd else { throw FieldReader.Fault() }
    return portals
  }

  var encoded: [UInt8] {
    var fields = FieldWriter()
    fields.put(self.link)
    fields.put(self.portal)
    return fields.bytes
  }

  init(decoding bytes: [UInt8]) throws(FieldReader.Fault) {
    var fields = FieldReader(bytes)
    self.init(link: try fields.number(), portal: try fields.text())
    guard fields.isAtEnd else { throw FieldReader.Fault() }
  }
}
