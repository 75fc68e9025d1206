import Glibc
import Synchronization
import TestKit
import TestTraits

/// A WireGuard tunnel from a laboratory to the outside world, set up by wg-quick. It uses the
/// kernel's module, or wireguard-go otherwise. It lasts as long as this object.
final class WireGuard {
  /// The link inside; the one outside has 10.8.0.1.
  let link: String
  private let outer: String
  private let laboratory: Laboratory

  /// wireguard-go's sockets have the links' names, and are shared by all namespaces.
  private static let count = Atomic<Int>(0)

  /// Leads all traffic of the laboratory into a tunnel that ends at one of the addresses outside.
  init(_ laboratory: Laboratory, to server: String, port: Int = 51820) throws {
    try TestSize.needsAll("WireGuard")
    let number = Self.count.add(1, ordering: .relaxed).newValue
    let unique = "\(getpid() % 100_000)x\(number)"
    (self.link, self.outer, self.laboratory) = ("wg\(unique)", "wo\(unique)", laboratory)
    let keys = try (1...2).map { _ in String(try Command.run(["wg", "genkey"]).prefix(44)) }
    let publicKeys = try keys.map { key in
      try Command.run(["sh", "-c", "echo \(key) | wg pubkey"]).prefix(44)
    }
    try laboratory.directory.write(
      """
      [Interface]
      PrivateKey = \(keys[0])
      Address = 10.8.0.2/24
      [Peer]
      PublicKey = \(publicKeys[1])
      Endpoint = \(server):\(port)
      AllowedIPs = 0.0.0.0/0
      """, to: "\(self.link).conf")
    try laboratory.directory.write(
      """
      [Interface]
      PrivateKey = \(keys[1])
      Address = 10.8.0.1/24
      ListenPort = \(port)
      [Peer]
      PublicKey = \(publicKeys[0])
      AllowedIPs = 10.8.0.2/32
      """, to: "\(self.outer).conf")
    try self.up(self.outer, laboratory.outside)
    try self.up(self.link, laboratory.namespace)
  }

  private func up(_ link: String, _ namespace: NetworkNamespace) throws {
    try namespace.run("wg-quick", "up", "\(self.laboratory.directory.path)/\(link).conf")
  }

  /// wireguard-go exits with its link.
  deinit {
    _ = try? self.laboratory.namespace.ip("link del \(self.link)")
    _ = try? self.laboratory.outside.ip("link del \(self.outer)")
  }
}

/// An OpenVPN tunnel from a laboratory to the outside world, whose end has 10.9.0.1: a server, and
/// a client that leads all traffic into the tunnel. It lasts as long as this object.
final class OpenVPN {
  static let link = "tun0"
  private let server: RunningCommand
  private let client: RunningCommand

  /// - Parameter transport: `udp` or `tcp`.
  init(_ laboratory: Laboratory, to address: String, _ transport: String) throws {
    try TestSize.needsAll("OpenVPN")
    let directory = laboratory.directory.path
    let prints = try ["server", "client"].map { name in
      try makeCertificate(named: name, in: laboratory)
      let print = try Command.run([
        "openssl", "x509", "-in", "\(directory)/\(name).pem", "-noout", "-fingerprint", "-sha256",
      ])
      return String(print.split(whereSeparator: { "=\n".contains($0) }).last ?? "")
    }
    func options(_ name: String, _ peer: String) -> [String] {
      [
        "openvpn", "--dev-type", "tun", "--cert", "\(directory)/\(name).pem", "--key",
        "\(directory)/\(name).key", "--peer-fingerprint", peer, "--persist-tun", "--verb", "3",
      ]
    }
    self.server = try laboratory.outside.spawn(
      options("server", prints[1]) + [
        "--dev", "tun1", "--proto", transport == "tcp" ? "tcp-server" : "udp", "--port", "1194",
        "--local", address, "--server", "10.9.0.0", "255.255.255.0", "--topology", "subnet", "--dh",
        "none",
        "--keepalive", "1", "4",
      ])
    _ = try self.server.line { $0.contains("Initialization Sequence Completed") }
    self.client = try laboratory.namespace.spawn(
      options("client", prints[0]) + [
        "--dev", Self.link, "--proto", transport == "tcp" ? "tcp-client" : "udp", "--client",
        "--nobind", "--remote", address, "1194", "--redirect-gateway", "def1",
        "--connect-retry", "1",
      ])
    try self.awaitConnection()
  }

  /// Waits until the client has connected or reconnected.
  func awaitConnection() throws {
    _ = try self.client.line { $0.contains("Initialization Sequence Completed") }
  }
}

/// An OpenConnect tunnel from a laboratory to the outside world, whose end has 10.10.0.1: ocserv,
/// and a client that leads all traffic into the tunnel. It lasts as long as this object.
final class OpenConnect {
  static let link = "tun0"
  static var isAvailable: Bool { access("/usr/sbin/ocserv", X_OK) == 0 }
  private let server: RunningCommand
  private let client: RunningCommand

  init(_ laboratory: Laboratory, to address: String) throws {
    try TestSize.needsAll("ocserv")
    let directory = laboratory.directory
    try makeCertificate(named: "server", in: laboratory)
    try Command.run([
      "bash", "-c", #"printf 'secret\nsecret\n' | ocpasswd -c "$1" user"#, "",
      "\(directory.path)/passwords",
    ])
    try directory.write(
      """
      auth = "plain[passwd=\(directory.path)/passwords]"
      listen-host = \(address)
      tcp-port = 443
      udp-port = 443
      run-as-user = root
      run-as-group = root
      socket-file = \(directory.path)/ocserv
      server-cert = \(directory.path)/server.pem
      server-key = \(directory.path)/server.key
      isolate-workers = false
      device = oc
      ipv4-network = 10.10.0.0
      ipv4-netmask = 255.255.255.0
      ping-leases = false
      cookie-timeout = 300
      persistent-cookies = true
      """, to: "ocserv.conf")
    self.server = try laboratory.outside.spawn([
      "sh", "-c", #"exec ocserv --foreground --debug 1 --config "$1" 2>&1"#, "",
      "\(directory.path)/ocserv.conf",
    ])
    _ = try self.server.line { $0.contains("sec-mod initialized") }
    let key = try Command.run([
      "sh", "-c",
      """
      openssl x509 -in "$1" -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | openssl base64
      """, "", "\(directory.path)/server.pem",
    ]).prefix(44)
    self.client = try laboratory.namespace.spawn(
      ["bash", "-c", #"exec "$@" <<<secret"#, ""] + [
        "openconnect", "--user", "user", "--passwd-on-stdin", "--servercert", "pin-sha256:\(key)",
        "--interface", Self.link, "--force-dpd", "1", "https://\(address)/",
      ])
    _ = try self.client.line { $0.contains("Configured as") }
    // Its script is still running.
    try waitUntil("all traffic is led into the tunnel") {
      try laboratory.namespace.ip("route show default").contains(" dev \(Self.link) ")
    }
  }

  /// Waits until the client has reconnected.
  func awaitConnection() throws {
    _ = try self.client.line { $0.contains("CSTP connected") }
  }
}

/// Creates NAME.pem and NAME.key in the laboratory's directory: a self-signed certificate.
private func makeCertificate(named name: String, in laboratory: Laboratory) throws {
  let path = "\(laboratory.directory.path)/\(name)"
  try Command.run(
    [
      "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
      "-nodes", "-days", "2", "-subj", "/CN=\(name)", "-keyout", "\(path).key", "-out",
      "\(path).pem",
    ])
}
