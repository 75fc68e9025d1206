import CLinux
import Connectivity
import Glibc

extension Requester {
  /// The index of the port by which a bridge reaches a hardware address of six octets.
  ///
  /// `nil` where the bridge has not learnt it, the address is the bridge's own, there is no such bridge, or the kernel cannot
  /// tell (before 5.0). A bridge that filters VLANs keeps its entries by VLAN, and is not asked for any.
  package func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(NetlinkError) -> UInt32? {
    guard hardwareAddress.count == 6, Int32(exactly: bridge) ?? 0 > 0 else { return nil }
    var header = ndmsg()
    header.ndm_family = UInt8(AF_BRIDGE)
    var request = Request(Int(RTM_GETNEIGH), "RTM_GETNEIGH", header: header)
    request.put(Int(NDA_LLADDR), hardwareAddress)
    request.put(Int(NDA_MASTER), bridge)
    // EINVAL: no link has that index. EOPNOTSUPP: it is no bridge, or the kernel cannot be asked for one entry.
    let absences: Set<CInt> = [ENOENT, ENODEV, EINVAL, EOPNOTSUPP, EAFNOSUPPORT]
    let entry = try self.object(request, absentIf: absences) { BridgeEntry(message: $0) }
    return entry.flatMap { $0.port == bridge ? nil : $0.port }
  }
}
