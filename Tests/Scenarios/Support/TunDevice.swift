import Glibc
import TestKit

/// A tun device whose ARPHRD type and carrier the test sets. It lasts as long as this object.
final class TunDevice {
  /// The descriptor on which packets are read and written.
  let descriptor: CInt

  // include/uapi/linux/if_tun.h: macros that Swift cannot import.
  private static let setInterface: UInt = 0x4004_54CA  // TUNSETIFF
  private static let setLinkType: UInt = 0x4004_54CD  // TUNSETLINK
  private static let setCarrierState: UInt = 0x4004_54E2  // TUNSETCARRIER
  private static let tunWithoutHeader: UInt16 = 0x1001  // IFF_TUN | IFF_NO_PI

  /// With CI=true the tests run and fail instead of being skipped.
  static var isAvailable: Bool {
    getenv("CI").map { String(cString: $0) } == "true" || access("/dev/net/tun", R_OK | W_OK) == 0
  }

  init(_ name: String, in namespace: NetworkNamespace) throws {
    self.descriptor = try namespace.perform {
      let descriptor = open("/dev/net/tun", O_RDWR | O_CLOEXEC)
      guard descriptor >= 0 else { throw CommandError("/dev/net/tun: errno \(errno)") }
      // struct ifreq: the name in 16 bytes, then the flags.
      var request = Array(name.utf8) + [UInt8](repeating: 0, count: 40 - name.utf8.count)
      withUnsafeBytes(of: Self.tunWithoutHeader) { request.replaceSubrange(16..<18, with: $0) }
      guard ioctl(descriptor, Self.setInterface, &request) == 0 else {
        defer { close(descriptor) }
        throw CommandError("TUNSETIFF: errno \(errno)")
      }
      return descriptor
    }
  }

  deinit { close(self.descriptor) }

  /// Allowed only while the link is down.
  func setHardwareType(_ type: UInt16) throws {
    guard ioctl(self.descriptor, Self.setLinkType, CInt(type)) == 0 else {
      throw CommandError("TUNSETLINK: errno \(errno)")
    }
  }

  func setCarrier(_ isOn: Bool) throws {
    var carrier: CInt = isOn ? 1 : 0
    guard ioctl(self.descriptor, Self.setCarrierState, &carrier) == 0 else {
      throw CommandError("TUNSETCARRIER: errno \(errno)")
    }
  }
}
