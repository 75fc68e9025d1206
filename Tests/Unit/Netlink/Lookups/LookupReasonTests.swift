import Connectivity
import Glibc
import Testing

@testable import Netlink

@Suite("Reasons of failed lookups")
struct LookupReasonTests {
  private func reason(
    _ code: CInt, _ words: String? = nil, of family: AddressFamily
  ) -> KernelPath.Reason? {
    KernelPath.Reason(
      lookup: NetlinkError(operation: "RTM_GETROUTE", code: code, message: words), of: family)
  }

  @Test(
    "K2 the kernel's errno is the reason",
    arguments: [
      (ENETUNREACH, .noRoute), (ESRCH, .noRoute), (ENODEV, .noRoute), (EHOSTUNREACH, .unreachable),
      (EACCES, .prohibited), (EINVAL, .blackhole), (EAGAIN, .throw),
    ] as [(CInt, KernelPath.Reason)])
  func known(code: CInt, reason: KernelPath.Reason) {
    for family in AddressFamily.allCases { #expect(self.reason(code, of: family) == reason) }
  }

  @Test("K2 EAFNOSUPPORT: unsupported for IPv6, ignored for IPv4")
  func withoutFamily() {
    for code in [EOPNOTSUPP, EAFNOSUPPORT, EPROTONOSUPPORT] {
      #expect(self.reason(code, of: .ipv6) == .unsupported)
      #expect(self.reason(code, of: .ipv4) == nil)
    }
  }

  @Test("K2 a request refused with a text says nothing about the route")
  func refused() {
    for family in AddressFamily.allCases {
      #expect(self.reason(EOPNOTSUPP, "Unsupported ip proto", of: family) == nil)
      #expect(self.reason(EINVAL, "Invalid prefix length", of: family) == nil)
    }
    for code in [EPERM, ETIMEDOUT, ENOBUFS, EBADMSG, EMSGSIZE] {
      #expect(self.reason(code, of: .ipv6) == nil)
    }
  }
}
