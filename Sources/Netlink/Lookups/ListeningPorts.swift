import CLinux
import Connectivity
import Glibc

/// The TCP ports on which this machine accepts connections, whatever the address.
package struct ListeningPorts: Sendable {
  /// One bit a port, so that a user who listens on all ports costs no more memory.
  private var bits = [UInt64](repeating: 0, count: 1 << 10)

  /// The memory of a value, in bytes.
  package static let cost = 8 << 10

  package init() {}

  package mutating func insert(_ port: UInt16) {
    self.bits[Int(port >> 6)] |= 1 << UInt64(port & 63)
  }

  package func contains(_ port: UInt16) -> Bool {
    self.bits[Int(port >> 6)] & 1 << UInt64(port & 63) != 0
  }
}

extension ListeningPorts {
  /// Reads the ports from the kernel (sock_diag(7)). Any user may read those of all users.
  ///
  /// - Parameter socket: A netlink socket of the protocol `NETLINK_SOCK_DIAG` for this dump alone.
  package init(on socket: any DatagramSocket) throws(NetlinkError) {
    let requester = try Requester(on: socket)
    self.init()
    for family in AddressFamily.allCases {
      do throws(NetlinkError) {
        let ports = try requester.objects(Request(socketsOf: family, in: [.listen])) { message in
          // The local port follows four octets, in the order of the network.
          message.payload.load(UInt16.self, at: 4).map(UInt16.init(bigEndian:))
        }
        for port in ports { self.insert(port) }
      } catch {
        // A kernel without IPv6 has no such sockets.
        guard family == .ipv6, error.isUnsupported || error.code == ENOENT else { throw error }
      }
    }
  }
}
