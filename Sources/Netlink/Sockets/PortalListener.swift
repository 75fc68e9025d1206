import CLinux
package import Connectivity
import Glibc

/// The socket that receives the captive portals in router advertisements (RTNLGRP_ND_USEROPT). The
/// kernel passes on the portals even if another program processes the advertisements. It does not
/// store them, so connd learns of a portal only from the next advertisement.
///
/// Not thread-safe: one thread owns it and polls `fileDescriptor` for reading.
package final class PortalListener {
  private let socket: NetlinkSocket

  /// Returns `nil` if netlink is unavailable, or the kernel lacks IPv6.
  package init?() {
    guard let socket = try? NetlinkSocket(nonBlocking: true) else { return nil }
    self.socket = socket
    // The filter is attached first, so that other options do not wake connd.
    var program = Self.filter.instructions
    let isFiltered = program.withUnsafeMutableBufferPointer { program in
      socket.setSocket(
        SO_ATTACH_FILTER, sock_fprog(len: UInt16(program.count), filter: program.baseAddress))
    }
    guard isFiltered, (try? socket.bind()) != nil,
      socket.set(NETLINK_ADD_MEMBERSHIP, CInt(RTNLGRP_ND_USEROPT.rawValue))
    else { return nil }
  }

  /// The descriptor to poll for reading.
  package var fileDescriptor: CInt { self.socket.fileDescriptor }

  /// A filter that passes only captive portals.
  static let filter: BPFProgram = {
    var program = BPFProgram()
    program.add(BPF_LD | BPF_B | BPF_ABS, UInt32(PortalAdvertisement.offset))
    program.pass(ifOneOf: [UInt32(PortalAdvertisement.option)])
    program.drop()
    return program
  }()

  /// The number of datagrams after which to stop, so that a hostile router cannot block the caller.
  private static let maxRouters = 64

  /// Returns the advertisements since the last call, without waiting.
  package func drain() -> [PortalAdvertisement] {
    var advertisements: [PortalAdvertisement] = []
    for _ in 0..<Self.maxRouters {
      switch self.socket.receive() {
      case .datagram(let bytes):
        var messages = MessageReader(bytes)
        while let message = messages.next() {
          if let advertisement = PortalAdvertisement(message: message) {
            advertisements.append(advertisement)
          }
        }
      // Routers repeat lost advertisements.
      case .truncated, .overrun, .foreign: continue
      case .nothing, .failed: return advertisements
      }
    }
    return advertisements
  }
}
