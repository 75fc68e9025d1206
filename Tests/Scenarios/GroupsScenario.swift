import Glibc
import TestKit
import TestTraits
import Testing

/// A system on which connd may not join all netlink groups.
@Suite("Groups", .needsNamespaces, .blocking)
struct GroupsScenario {
  /// Starts connd on a system where joining these groups fails.
  private func laboratory(refusing groups: String, with code: CInt) throws -> Laboratory {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    let library = "\(lab.directory.path)/groups.so"
    let source = Checkout.path("Tests/Oracles/storms/groups.c")
    try Command.run(["clang", "-shared", "-fPIC", "-Wall", "-o", library, source, "-ldl"])
    try lab.start(prefix: [
      "env", "LD_PRELOAD=\(library)", "NETLINK_GROUPS_REFUSED=\(groups)",
      "NETLINK_GROUPS_ERRNO=\(code)",
    ])
    return lab
  }

  @Test("K8 a refused group → the category is unknown, which counts as online")
  func refused() throws {
    // RTNLGRP_LINK: without it a dead link would pass for a path.
    let lab = try self.laboratory(refusing: "1", with: EPERM)
    let status = try lab.status()
    #expect(status.category == "unknown")
    #expect(status.ipv4.reason == "kernelUnavailable")
    #expect(try lab.connctl("is", "online").status == 0)
    let said = try #require(lab.connd).standardError
    #expect(said.contains("join RTNLGRP_LINK: Operation not permitted"))
  }

  @Test("A kernel without nexthop objects lacks only their group")
  func withoutNexthops() throws {
    let lab = try self.laboratory(refusing: "32", with: EINVAL)
    #expect(try lab.status().category == "other")
    try lab.ip("route del default")
    #expect(try lab.event().to == "none")
  }
}
