import Connectivity
import TestKit
import Testing

@testable import Netlink

/// Messages that the kernel sends before it has made the change.
@Suite(
  "Early messages",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct EarlyMessageTests {
  /// With its first address, a link loses the others of the same subnet one by one, and its default
  /// route last.
  @Test("K2 the kernel is still removing addresses → waitForChanges waits until the route is gone")
  func addresses() throws {
    let namespace = try NetworkNamespace()
    try namespace.ipBatch([
      "link add ve0 index 10 type veth peer name ve1", "link set ve1 up", "link set ve0 up",
    ])
    let addresses = (0..<2000).map { "address add 10.9.\($0 / 200).\($0 % 200 + 2)/16 dev ve0" }
    try namespace.ipBatch(addresses + ["route add default via 10.9.0.1"])
    let (listener, requester) = try namespace.perform {
      (try Listener(watching: FilterSpec()), try Requester())
    }
    let removal = try namespace.spawn(["ip", "address", "del", "10.9.0.2/16", "dev", "ve0"])
    var events: [KernelEvent] = []
    let maxWait = Patience(.seconds(20))
    while events.isEmpty, !maxWait.isOver { _ = try listener.drain(into: &events, limit: 1) }
    guard case .addressRemoved? = events.first else {
      Issue.record("\(events)")
      return
    }
    requester.waitForChanges()
    #expect(try requester.route(to: Destination(address("198.51.100.1"))) == .noRoute(.noRoute))
    #expect(try removal.wait() == 0)
  }
}
