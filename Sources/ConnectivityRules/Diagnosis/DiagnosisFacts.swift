package import Connectivity

/// The facts of a diagnosis besides the sockets of TCP.
package struct DiagnosisFacts: Hashable, Sendable {
  /// A local address and a user, which select a path together.
  package struct Origin: Hashable, Sendable {
    package var source: IPAddress
    package var user: UInt32

    package init(source: IPAddress, user: UInt32) {
      (self.source, self.user) = (source, user)
    }
  }

  /// The kernel's answers for connections of each origin.
  package var paths: [Origin: KernelPath]
  /// The default path of the address family that the status follows.
  package var defaultPath: KernelPath
  /// The number of retransmissions between the samples that this machine did not let out
  /// (`TcpExtTCPRetransFail`).
  package var failedRetransmissions: UInt64
  /// The names of links on which the driver reported lost frames or a low signal.
  package var troubledLinks: Set<String>
  package var names: NameQueries
  /// The number of the subject's quiet connections, which are not compared.
  package var quietConnections = 0

  package init(
    paths: [Origin: KernelPath] = [:], defaultPath: KernelPath = KernelPath(status: .satisfied),
    failedRetransmissions: UInt64 = 0, troubledLinks: Set<String> = [],
    names: NameQueries = NameQueries()
  ) {
    (self.paths, self.defaultPath) = (paths, defaultPath)
    self.failedRetransmissions = failedRetransmissions
    (self.troubledLinks, self.names) = (troubledLinks, names)
  }

  /// The prefixes of this machine's networks.
  var networks: Set<IPPrefix> {
    Set(self.paths.values.compactMap(\.sourceNetwork))
  }
}

extension KernelPath {
  /// The network of the source address, or `nil` if unknown. An address from DHCPv6 has no prefix
  /// of its own, and its network is usually a /64.
  package var sourceNetwork: IPPrefix? {
    guard let source = self.source, let length = self.sourcePrefixLength else { return nil }
    return IPPrefix(source, length: length == 128 ? 64 : length)
  }
}

extension SocketFinding {
  package var origin: DiagnosisFacts.Origin { .init(source: self.source, user: self.user) }
}

/// The queries to DNS servers, as the UDP sockets show them.
///
/// Only connected sockets are seen, as of glibc and systemd-resolved.
package struct NameQueries: Hashable, Sendable {
  /// The servers of sockets that received nothing between the first and the last sample.
  package var waiting: Set<IPAddress> = []
  /// The servers of sockets that received an answer, or that existed for less than a second.
  package var answered: Set<IPAddress> = []

  private var first: Set<UInt64>?
  private var last: [UInt64: IPAddress] = [:]

  package init() {}

  package init(waiting: Set<IPAddress>, answered: Set<IPAddress> = []) {
    (self.waiting, self.answered) = (waiting, answered)
  }

  /// Adds a sample of the UDP sockets that are connected to DNS servers.
  ///
  /// - Parameter servers: The DNS servers of the settings. If it is empty, all servers count.
  package mutating func add(_ sockets: [SocketSample], servers: Set<IPAddress>) {
    var present: [UInt64: IPAddress] = [:]
    for socket in sockets where !socket.host.isLoopback && socket.inode != 0 {
      guard servers.isEmpty || servers.contains(socket.host) else { continue }
      if socket.unread > 0 {
        self.answered.insert(socket.host)
      } else {
        present[socket.cookie] = socket.host
      }
    }
    let known = self.first ?? Set(present.keys)
    // A socket that began after the first sample and has ended was not closed by its timeout,
    // which is a second or more.
    for (cookie, host) in self.last where present[cookie] == nil && !known.contains(cookie) {
      self.answered.insert(host)
    }
    (self.first, self.last) = (known, present)
    self.waiting = Set(present.filter { known.contains($0.key) }.values)
  }
}
