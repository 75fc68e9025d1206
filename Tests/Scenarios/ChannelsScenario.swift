import TestKit
import TestTraits
import Testing

/// The fate of a program's calls when its network changes. `callprobe` is the program, and TCP is
/// real.
@Suite("Channels", .needsNamespaces, .blocking)
struct ChannelsScenario {
  private static let server = CallBench.server

  // MARK: Categories: transitions between none, wifi and cellular

  @Test("C2 C3 Wi-Fi → cellular: calls end with UNAVAILABLE, the next one uses cellular")
  func wifiToCellular() throws {
    let bench = try CallBench(["wlan0", "wwan0"])
    try bench.expectEnd("wifi to cellular", "interfaceLost", next: "10.1.0.2") {
      try bench.lab.namespace.ip("link set wlan0 down")
    }
  }

  @Test("C2 C3 cellular → Wi-Fi: calls that would stall end, the next one uses Wi-Fi")
  func cellularToWifi() throws {
    let bench = try CallBench(["wlan0", "wwan0"], routes: ["wwan0"])
    try bench.expectEnd("cellular to wifi", "betterPath", next: "10.0.0.2") {
      try bench.lab.namespace.ip("route add default via 10.0.0.1 dev wlan0 metric 50")
    }
  }

  @Test("C2 C3 mobile data is switched off → the cable takes over")
  func cellularOff() throws {
    let bench = try CallBench(["wwan0", "eth0"])
    try bench.expectEnd("cellular off", "interfaceLost", next: "10.1.0.2") {
      try bench.lab.namespace.ip("link set wwan0 down")
    }
  }

  @Test(
    "C2 C3 the modem re-dials with another address → calls end, the next one uses the new address")
  func redialled() throws {
    let bench = try CallBench(["wwan0"])
    try bench.expectEnd("redialled", "sourceAddressLost", "interfaceLost", next: "10.0.0.9") {
      try bench.lab.namespace.ipBatch([
        "address flush dev wwan0", "address add 10.0.0.9/24 dev wwan0",
        "route add default via 10.0.0.1 dev wwan0 metric 100",
      ])
    }
  }

  @Test("C2 C3 airplane mode: all links go down together, then one is back")
  func airplaneMode() throws {
    let bench = try CallBench(["wlan0", "wwan0", "eth0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let far = try client.open(CallBench.far)
    let moment = CallProbe.now
    try bench.lab.namespace.ipBatch(["wlan0", "wwan0", "eth0"].map { "link set \($0) down" })
    try client.expectEnded(far, ["interfaceLost"], since: moment, "airplane mode")
    let refused = try client.next("ended", of: client.startQuick(CallBench.far))
    #expect(refused.code == "unavailable")
    try bench.lab.namespace.ipBatch([
      "link set wwan0 up", "route add default via 10.1.0.1 dev wwan0 metric 100",
    ])
    _ = try bench.lab.events { $0.to == "cellular" }
    try client.expectNextCall(CallBench.far, from: "10.1.0.2", "one radio is back")
    try client.quit()
    try server.end()
  }

  @Test("C2 Wi-Fi is lost and back within the grace period → no call ends")
  func withinGrace() throws {
    let bench = try CallBench(["wlan0"], configuration: "grace: {wifi: 20s}\n")
    try bench.expectNoEnd {
      try bench.lab.outside.ip("link set wlan0 down")
      #expect(try bench.lab.event().to == "none")
      try bench.lab.outside.ip("link set wlan0 up")
      #expect(try bench.lab.event().to == "wifi")
    }
  }

  @Test(
    "C2 C4 Wi-Fi is lost → calls end, and one that waits for the network goes out when it is back"
  )
  func beyondGrace() throws {
    let bench = try CallBench(["wlan0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let far = try client.open(CallBench.far)
    let near = try client.open(CallBench.near)
    let moment = CallProbe.now
    try bench.lab.outside.ip("link set wlan0 down")
    try client.expectEnded(far, ["interfaceLost"], since: moment, "wifi to none")
    let waiting = try client.startQuick(CallBench.far)
    try client.next("state") { $0.state == "connecting" && $0.at > moment }
    try bench.lab.outside.ip("link set wlan0 up")
    #expect(try bench.lab.event().to == "none")
    #expect(try bench.lab.event().to == "wifi")
    try client.expectSuccess(of: waiting, from: "10.0.0.2", "none to wifi, waiting")
    try client.expectNextCall(CallBench.far, from: "10.0.0.2", "none to wifi")
    try client.expectUndisturbed(near)
    try client.quit()
    try server.end()
  }

  @Test(
    "C3 a destroyed connection sends nothing on the new network"
  )
  func quietly() throws {
    // The kernel would send an ARP request for the new gateway with the old address. A gateway that
    // does not answer it would delay the next connection by a second.
    let bench = try CallBench(["wlan0", "wwan0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let far = try client.open(CallBench.far)
    try bench.settled()
    let moment = CallProbe.now
    try bench.lab.namespace.ip("link set wlan0 down")
    try client.expectEnded(far, ["interfaceLost"], since: moment, "quietly")
    try client.expectNextCall(CallBench.far, from: "10.1.0.2", "quietly")
    #expect(try bench.strayPackets() == 0)
    try client.quit()
    try server.end()
  }

  // MARK: Links

  @Test("C2 C3 the cable is pulled → calls end; it is plugged in → the next one succeeds")
  func cablePulled() throws {
    let bench = try CallBench(["eth0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let far = try client.open(CallBench.far)
    let near = try client.open(CallBench.near)
    let moment = CallProbe.now
    try bench.lab.outside.ip("link set eth0 down")
    try client.expectEnded(far, ["interfaceLost"], since: moment, "cable pulled")
    try client.expectUndisturbed(near)
    #expect(try bench.lab.event().to == "none")
    try bench.lab.outside.ip("link set eth0 up")
    #expect(try bench.lab.event().to == "wired")
    try client.expectNextCall(CallBench.far, from: "10.0.0.2", "cable plugged in")
    try client.quit()
    try server.end()
  }

  @Test("C2 C3 the link is deleted → calls end, the next one uses the other link")
  func linkDeleted() throws {
    let bench = try CallBench(["eth0", "eth1"])
    try bench.expectEnd(
      "link deleted", "interfaceLost", "sourceAddressLost", "betterPath", next: "10.1.0.2"
    ) {
      try bench.lab.namespace.ip("link del eth0")
    }
  }

  @Test("C2 C3 a better link becomes available → calls end, the next one uses it")
  func betterPath() throws {
    let bench = try CallBench(["eth0", "eth1"], routes: ["eth0"])
    try bench.expectEnd("better path", "betterPath", next: "10.1.0.2") {
      try bench.lab.namespace.ip("route add default via 10.1.0.1 dev eth1 metric 50")
    }
  }

  // MARK: Addresses, gateways, routes

  @Test("C2 C3 the address is replaced → calls end, the next one uses the new address")
  func addressReplaced() throws {
    let bench = try CallBench(["eth0"])
    try bench.lab.namespace.set("net/ipv4/conf/eth0/promote_secondaries", "1")
    try bench.lab.namespace.ip("address add 10.0.0.3/24 dev eth0")
    try bench.expectEnd("address replaced", "sourceAddressLost", next: "10.0.0.3") {
      try bench.lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    }
  }

  @Test("C2 C3 Wi-Fi joins another hotspot whose gateway has the same address → calls end")
  func gatewayReplaced() throws {
    let bench = try CallBench(["wlan0"], configuration: "grace: {wifi: 60s}\n")
    try bench.expectEnd("another hotspot", "networkChanged", next: "10.0.0.2") {
      try bench.lab.outside.ip("link set wlan0 down")
      #expect(try bench.lab.event().to == "none")
      try bench.lab.outside.ip("link set wlan0 address 02:00:00:00:00:99")
      try bench.lab.outside.ip("link set wlan0 up")
      #expect(try bench.lab.event().to == "wifi")
      try bench.lab.namespace.ip(
        "neighbour replace 10.0.0.1 lladdr 02:00:00:00:00:99 dev wlan0 nud reachable")
    }
  }

  @Test("C2 the default route is deleted and added again within the grace period → no call ends")
  func routeBack() throws {
    let bench = try CallBench(["eth0"], configuration: "grace: {route: 20s}\n")
    try bench.expectNoEnd {
      try bench.lab.namespace.ip("route del default")
      #expect(try bench.lab.event().to == "none")
      try bench.lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
      #expect(try bench.lab.event().to == "wired")
    }
  }

  @Test("C2 C4 the default route does not come back → calls end, and fail until there is one")
  func routeGone() throws {
    let bench = try CallBench(["eth0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let far = try client.open(CallBench.far)
    let near = try client.open(CallBench.near)
    let moment = CallProbe.now
    try bench.lab.namespace.ip("route del default")
    try client.expectEnded(far, ["interfaceLost"], since: moment, "route deleted")
    let unreachable = try client.startQuick(CallBench.far)
    let failure = try client.next("ended", of: unreachable)
    #expect(failure.code == "unavailable")
    #expect(failure.reason == nil)
    // The call waits for the backoff of a minute, which the new path cuts short.
    let waiting = try client.startQuick(CallBench.far)
    try bench.lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 100")
    try client.expectSuccess(of: waiting, from: "10.0.0.2", "route added")
    try client.expectUndisturbed(near)
    try client.quit()
    try server.end()
  }

  // MARK: Changes that concern only some destinations

  @Test("C2 a host route captures the server → its calls end, another server's do not")
  func captured() throws {
    let bench = try CallBench(["eth0", "eth1"], routes: ["eth0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client()
    let calls = try (0..<3).map { try client.open($0) }
    let moment = CallProbe.now
    try bench.lab.namespace.ip("route add \(Self.server)/32 via 10.1.0.1 dev eth1")
    try client.expectEnded(calls[0], ["betterPath"], since: moment, "captured")
    try client.expectNextCall(0, from: "10.1.0.2", "captured")
    for calls in calls.dropFirst() { try client.expectUndisturbed(calls) }
    try client.expectNextCall(1, from: "10.0.0.2", "not captured")
    try client.quit()
    try server.end()
  }

  @Test(
    "C2 the server is on the link while the default route changes to another medium → its calls go on"
  )
  func onLink() throws {
    let bench = try CallBench(["eth0", "wlan0"], routes: ["wlan0"])
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: [Self.server, "10.0.0.1"])
    let far = try client.open(0)
    let near = try client.open(1)
    let moment = CallProbe.now
    try bench.lab.namespace.ip("link set wlan0 down")
    try bench.lab.namespace.ip("route add default via 10.0.0.1 dev eth0 metric 50")
    try client.expectEnded(
      far, ["interfaceLost", "categoryChanged"], since: moment, "default to the link")
    try client.expectNextCall(0, from: "10.0.0.2", "default to the link")
    try client.expectUndisturbed(near)
    try client.quit()
    try server.end()
  }

  @Test("C2 the path below a tunnel moves → calls inside go on")
  func tunnel() throws {
    let bench = try CallBench(["wlan0", "wwan0"])
    let lab = bench.lab
    // Both ends of the tunnel answer any outer address of the other, because the addresses are on
    // `lo`.
    try lab.namespace.ip("address add 198.51.100.2/32 dev lo")
    for link in ["all", "wlan0", "wwan0"] {
      try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0")
    }
    try lab.namespace.ip(
      "link add tun8 type vxlan id 8 local 198.51.100.2 remote \(Self.server) dstport 4789")
    try lab.outside.ip(
      "link add tun8 type vxlan id 8 local \(Self.server) remote 198.51.100.2 dstport 4789")
    try lab.outside.ip("route add 198.51.100.2/32 via 10.0.0.2")
    for (namespace, address) in [(lab.namespace, "10.8.0.2"), (lab.outside, "10.8.0.1")] {
      try namespace.ip("address add \(address)/24 dev tun8")
      try namespace.ip("link set tun8 up")
    }
    let server = try CallServer(lab)
    let client = try bench.client(to: [Self.server, "10.8.0.1"])
    let outside = try client.open(0)
    let inside = try client.open(1)
    let moment = CallProbe.now
    try lab.namespace.ip("link set wlan0 down")
    try lab.outside.ip("route replace 198.51.100.2/32 via 10.1.0.2")
    try client.expectEnded(outside, ["interfaceLost"], since: moment, "below the tunnel")
    try client.expectNextCall(0, from: "10.1.0.2", "below the tunnel")
    try client.expectUndisturbed(inside)
    try client.quit()
    try server.end()
  }

  // MARK: Names

  @Test("C2 names are resolved again after a change, and not for each call")
  func names() throws {
    let bench = try CallBench(["wlan0", "wwan0"])
    let (old, new) = (
      "\(Self.server):\(CallServer.port)", "\(CallBench.otherServer):\(CallServer.port)"
    )
    let file = try bench.lab.directory.write("server.test \(old)\n", to: "names")
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: ["server.test"], arguments: ["--resolve-file", file])
    let calls = try client.open(0)
    try client.expectNextCall(0, to: old, "old name")
    #expect(try client.next("resolved").message == old)
    // Without a change the name is not resolved again.
    try bench.lab.directory.write("server.test \(new)\n", to: "names")
    try client.expectNextCall(0, to: old, "old name")
    let moment = CallProbe.now
    try bench.lab.namespace.ip("link set wlan0 down")
    try client.expectEnded(calls, ["interfaceLost"], since: moment, "renamed")
    try client.expectNextCall(0, from: "10.1.0.2", to: new, "renamed")
    #expect(try client.next("resolved").message == new)
    try client.quit()
    try server.end()
  }
}
