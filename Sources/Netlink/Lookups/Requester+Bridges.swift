import CLinux
import Connectivity
import Glibc

/// Implements rule K6.
extension Requester {
  /// Returns the index of the port through which a bridge reaches a MAC address of six bytes.
  ///
  /// Returns `nil` if the bridge has not learnt the address or owns it, the bridge does not exist,
  /// or the kernel cannot answer (before 5.0). A bridge that filters VLANs keeps entries per VLAN,
  /// which this query does not cover.
  package func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(NetlinkError) -> UInt32? {
    guard hardwareAddress.count == 6, Int32(exactly: bridge) ?? 0 > 0 else { return nil }
    var header = ndmsg()
    header.ndm_family = UInt8(AF_BRIDGE)
    var request = Request(Int(RTM_GETNEIGH), "RTM_GETNEIGH", header: header)
    request.put(Int(NDA_LLADDR), hardwareAddress)
    request.put(Int(NDA_MASTER), bridge)
    // EINVAL: no link has that index. EOPNOTSUPP: the link is not a bridge, or the kernel cannot
    // look up single entries.
    let absences = [ENOENT, ENODEV, EINVAL, EOPNOTSUPP, EAFNOSUPPORT]
    let entry = try self.object(request, absentIf: absences) { BridgeEntry(message: $0) }
    return entry.flatMap { $0.port == bridge ? nil : $0.port }
  }
}
