public import Connectivity
private import ConnectivityProtobuf

extension Connectivity_V1_Dns {
  public init(_ settings: DNSSettings) {
    self.init()
    self.servers = settings.servers.map(\.description)
    self.search = settings.search
    self.links = settings.links.map { Connectivity_V1_DnsLink($0) }
  }
}

extension DNSSettings {
  /// - Throws: ``ConversionError`` if an address is invalid.
  public init(_ message: Connectivity_V1_Dns) throws(ConversionError) {
    try self.init(servers: message.servers, message.search, message.links)
  }

  fileprivate init(
    servers: [String], _ search: [String], _ links: [Connectivity_V1_DnsLink]
  ) throws(ConversionError) {
    self.init(
      servers: try Server.reading(servers), search: search,
      links: try links.map { (link) throws(ConversionError) in
        Link(
          interface: link.interface, servers: try Server.reading(link.servers),
          search: link.search)
      })
  }
}

extension Connectivity_V1_DnsChange {
  public init(_ change: ConnectivityChange.DNSChange) {
    self.init()
    let dns = Connectivity_V1_Dns(change.settings)
    self.generation = change.generation
    (self.servers, self.search, self.links) = (dns.servers, dns.search, dns.links)
    self.cause = Connectivity_V1_Cause(change.cause)
    self.publishTime = Google_Protobuf_Timestamp(change.time)
  }
}

extension ConnectivityChange.DNSChange {
  /// - Throws: ``ConversionError`` if an address or the time is invalid.
  public init(_ message: Connectivity_V1_DnsChange) throws(ConversionError) {
    self.init(
      generation: message.generation,
      settings: try DNSSettings(servers: message.servers, message.search, message.links),
      cause: ChangeCause(message.cause), time: try WallTime(message.publishTime))
  }
}

extension Connectivity_V1_DnsLink {
  fileprivate init(_ link: DNSSettings.Link) {
    self.init()
    self.interface = link.interface
    self.servers = link.servers.map(\.description)
    self.search = link.search
  }
}

extension DNSSettings.Server {
  fileprivate static func reading(_ texts: [String]) throws(ConversionError) -> [Self] {
    try texts.map { (text) throws(ConversionError) in
      guard let server = Self(text) else {
        throw ConversionError("servers", "\(text) is not an address")
      }
      return server
    }
  }
}
