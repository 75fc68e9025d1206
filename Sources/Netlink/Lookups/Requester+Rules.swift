import CLinux
package import Connectivity

extension Requester {
  /// Returns the `ip rule`s of a family, in the order in which the kernel tries them. A kernel
  /// without the family has none.
  package func rules(_ family: AddressFamily) throws(NetlinkError) -> [Rule] {
    var header = fib_rule_hdr()
    header.family = family.netlinkNumber
    let request = Request(Int(RTM_GETRULE), "RTM_GETRULE", isDump: true, header: header)
    do throws(NetlinkError) {
      return try self.objects(request) { message in
        guard
          Int(message.type) == Int(RTM_NEWRULE), let rule = Rule(message: message),
          rule.family == family
        else { return nil }
        return rule
      }
    } catch {
      guard family == .ipv6, error.isUnsupported else { throw error }
      return []
    }
  }
}
