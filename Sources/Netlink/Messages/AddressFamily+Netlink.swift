internal import Connectivity
import Glibc

extension AddressFamily {
  /// The family for AF_INET or AF_INET6, or `nil` for any other.
  init?(netlink number: UInt8) {
    switch CInt(number) {
    case AF_INET: self = .ipv4
    case AF_INET6: self = .ipv6
    default: return nil
    }
  }

  var netlinkNumber: UInt8 { UInt8(truncatingIfNeeded: self == .ipv4 ? AF_INET : AF_INET6) }
}
