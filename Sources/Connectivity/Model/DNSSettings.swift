/// Whom this machine asks for names, as its files say: resolv.conf(5), and what stands behind it.
public struct DNSSettings: Hashable, Sendable {
  /// A name server.
  public struct Server: Hashable, Sendable, CustomStringConvertible {
    public var address: IPAddress
    /// The link by which a link-local address is reached; `nil` for any other.
    public var zone: String?

    public init(_ address: IPAddress, zone: String? = nil) {
      self.address = address
      self.zone = zone
    }

    /// `fe80::1%wlan0`; `nil` for what is no address.
    public init?(_ text: some StringProtocol) {
      let parts = text.split(separator: "%", maxSplits: 1)
      guard let address = parts.first.flatMap({ IPAddress(String($0)) }) else { return nil }
      self.init(address, zone: parts.count > 1 ? String(parts[1]) : nil)
    }

    /// `192.0.2.53`, `fe80::1%wlan0`
    public var description: String {
      self.address.description + (self.zone.map { "%\($0)" } ?? "")
    }
  }

  /// What one link has brought.
  public struct Link: Hashable, Sendable {
    /// The link's name.
    public var interface: String
    public var servers: [Server]
    public var search: [String]

    public init(interface: String, servers: [Server] = [], search: [String] = []) {
      self.interface = interface
      self.servers = servers
      self.search = search
    }
  }

  /// The name servers, in the order in which they are asked. Where the machine asks a stub of its own (systemd-resolved,
  /// NetworkManager's dnsmasq) these are the ones behind it, as far as a file names them. Empty: names are not resolved by DNS.
  public var servers: [Server]
  /// The domains that are tried for a name of one word, in their order.
  public var search: [String]
  /// By link, where files say it, in the order of the links' names. A resolver may ask each link's servers for some domains only.
  public var links: [Link]

  public init(servers: [Server] = [], search: [String] = [], links: [Link] = []) {
    self.servers = servers
    self.search = search
    self.links = links
  }
}

/// Whom this machine asks for names changed.
public struct DNSChange: Hashable, Sendable {
  public var generation: UInt64
  /// What holds now.
  public var settings: DNSSettings
  public var cause: Cause
  /// When it was published.
  public var time: Timestamp

  public init(generation: UInt64, settings: DNSSettings, cause: Cause, time: Timestamp) {
    self.generation = generation
    self.settings = settings
    self.cause = cause
    self.time = time
  }
}
