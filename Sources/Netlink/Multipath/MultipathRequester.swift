import CLinux
import Connectivity
import Glibc

/// Reads and changes the endpoints of Multipath TCP in this network namespace. Reading needs no
/// privilege; changes need CAP_NET_ADMIN.
///
/// Not thread-safe: one thread owns it.
package final class MultipathRequester {
  private typealias Numbers = MultipathNumbers

  private let requester: Requester
  private let family: GenericFamily

  /// - Throws: An error if netlink is unavailable, or the kernel has no Multipath TCP.
  package init() throws(NetlinkError) {
    self.requester = try Requester(NETLINK_GENERIC)
    guard let family = try self.requester.family(Numbers.family) else {
      throw NetlinkError(
        operation: Numbers.family, code: EPROTONOSUPPORT,
        message: "the kernel has no Multipath TCP")
    }
    self.family = family
  }

  package func endpoints() throws(NetlinkError) -> [MultipathEndpoint] {
    let request = Self.request(.get, self.family, isDump: true)
    return try self.requester.objects(request) { MultipathEndpoint(message: $0) }
  }

  package func add(_ endpoint: MultipathEndpoint) throws(NetlinkError) {
    try self.requester.command(Self.adding(endpoint, self.family))
  }

  /// Deletes an endpoint and ends its subflows, including the first subflows of connections.
  package func delete(_ endpoint: MultipathEndpoint) throws(NetlinkError) {
    for id in [endpoint.id, 0] {
      do throws(NetlinkError) {
        try self.requester.command(Self.deleting(id, endpoint.address, self.family))
      } catch {
        // The endpoint may already be deleted, and the first subflows may have ended, too.
        guard error.isAnswer, error.code == EINVAL || error.code == ENOENT else { throw error }
      }
    }
  }

  /// Sets or clears the flag `backup` of an endpoint and of its subflows.
  package func setBackup(
    _ isBackup: Bool, of endpoint: MultipathEndpoint
  ) throws(NetlinkError) {
    var endpoint = endpoint
    if isBackup { endpoint.flags.insert(.backup) } else { endpoint.flags.remove(.backup) }
    try self.requester.command(Self.flagging(endpoint, self.family))
  }

  // MARK: - Requests

  static func adding(_ endpoint: MultipathEndpoint, _ family: GenericFamily) -> Request {
    var request = Self.request(.add, family)
    endpoint.put(into: &request)
    return request
  }

  static func flagging(_ endpoint: MultipathEndpoint, _ family: GenericFamily) -> Request {
    var request = Self.request(.setFlags, family)
    endpoint.put(into: &request)
    return request
  }

  /// - Parameters:
  ///   - id: 0 means the subflows that began connections from the address.
  static func deleting(
    _ id: UInt8, _ address: IPAddress, _ family: GenericFamily
  ) -> Request {
    var request = Self.request(.delete, family)
    request.nest(Numbers.endpoint) { request in
      request.put(Numbers.id, id)
      if id == 0 { MultipathEndpoint.put(address, into: &request) }
    }
    return request
  }

  private static func request(
    _ command: Numbers.Command, _ family: GenericFamily, isDump: Bool = false
  ) -> Request {
    Request(
      Int(family.id), "mptcp_pm's command \(command)", isDump: isDump, isCommand: !isDump,
      header: genlmsghdr(cmd: command.rawValue, version: 1, reserved: 0))
  }
}
