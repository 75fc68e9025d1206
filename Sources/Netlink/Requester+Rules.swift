import CLinux
public import Connectivity

extension Requester {
  /// The `ip rule`s of a family, in the order in which the kernel tries them.
  public func rules(_ family: AddressFamily) throws(NetlinkError) -> [Rule] {
    var header = fib_rule_hdr()
    header.family = family.netlinkNumber
    let request = Request(Int(RTM_GETRULE), "RTM_GETRULE", isDump: true, header: header)
    return try self.objects(request) { message in
      Int(message.type) == Int(RTM_NEWRULE) ? Rule(message: message) : nil
    }
  }
}
