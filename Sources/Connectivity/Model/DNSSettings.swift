/// The DNS configuration, as read from files: resolv.conf(5), and the servers behind it.
public struct DNSSettings: Hashable, Sendable {
  /// A DNS server.
  public struct Server: Hashable, Sendable, CustomStringConvertible {
    public var address: IPAddress
    /// The link of a link-local address, or `nil` for other addresses.
    public var zone: String?

    public init(_ address: IPAddress, zone: String? = nil) {
      self.address = address
      self.zone = zone
    }

    /// Parses `fe80::1%wlan0`. Returns `nil` if the text is not an address.
    public init?(_ text: some StringProtocol) {
      let parts = text.utf8.split(separator: UInt8(ascii: "%"), maxSplits: 1).map {
        String(decoding: $0, as: UTF8.self)
      }
      guard let address = parts.first.flatMap({ IPAddress($0) }) else { return nil }
      self.init(address, zone: parts.count > 1 ? parts[1] : nil)
    }

    /// `192.0.2.53`, `fe80::1%wlan0`
    public var description: String {
      self.address.description + (self.zone.map { "%\($0)" } ?? "")
    }
  }

  /// The DNS settings that one link provides.
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

  /// The DNS servers, in the order in which they are used. If the machine uses a local stub
  /// resolver (systemd-resolved, NetworkManager's dnsmasq), these are the servers behind it, as far
  /// as a file names them. Empty means that names are not resolved by DNS.
  public var servers: [Server]
  /// The search domains for single-label names, in order.
  public var search: [String]
  /// The settings of each link, if files name them, sorted by link name. A resolver may use each
  /// link's servers for some domains only.
  public var links: [Link]

  public init(servers: [Server] = [], search: [String] = [], links: [Link] = []) {
    self.servers = servers
    self.search = search
    self.links = links
  }
}

extension ConnectivityChange {
  /// A change of the DNS configuration.
  public struct DNSChange: Hashable, Sendable {
    public var generation: UInt64
    /// The configuration after the change.
    public var settings: DNSSettings
    public var cause: ChangeCause
    /// The time of publication.
    public var time: WallTime

    package init(generation: UInt64, settings: DNSSettings, cause: ChangeCause, time: WallTime) {
      self.generation = generation
      self.settings = settings
      self.cause = cause
      self.time = time
    }
  }
}
