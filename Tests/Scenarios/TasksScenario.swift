import Glibc
import TestKit
import TestTraits
import Testing

/// The tasks of a new user, with the lines that README and manual give for them. Status bars and
/// Prometheus have suites of their own.
@Suite("A new user's tasks", .needsNamespaces, .blocking)
struct TasksScenario {
  /// A laptop with a cable, Wi-Fi and a modem, whose default route uses the cable.
  private func laptop() throws -> Laboratory {
    let lab = try Laboratory(
      configuration: """
        links:
          - {match: eth0, medium: wired}
          - {match: wlan0, medium: wifi}
          - {match: wwan0, medium: cellular, expensive: true}
        """)
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("wlan0", "198.51.100.2")
    try lab.addLink("wwan0", "203.0.113.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    return lab
  }

  /// Starts a shell script for which `connctl` is the tested one, and finds the tested connd.
  private func script(
    _ text: String, _ lab: Laboratory, path: String = "/nonexistent"
  ) throws -> RunningCommand {
    let programs = Programs.connctl.split(separator: "/").dropLast().joined(separator: "/")
    return try lab.namespace.spawn(
      ["sh", "-c", #"PATH="$0:$PATH"; eval "$1""#, "\(path):/\(programs)", text],
      environment: ["CONND_SOCKET": lab.socket])
  }

  /// The first line of a file that has these words.
  private func line(of file: String, with words: String) throws -> String {
    let text = try Command.run(["cat", Checkout.path(file)])
    return String(try #require(text.split(separator: "\n").first { $0.contains(words) }))
  }

  @Test(
    "syncthing as a user unit: it stops on the modem and on a metered hotspot, and starts again")
  func syncthing() throws {
    let lab = try self.laptop()
    // The routers have answered, so that connd knows the networks.
    for router in ["192.0.2.1", "198.51.100.1"] {
      try lab.namespace.exchange(with: router)
    }
    try lab.startConnd()
    // A systemctl that prints its arguments.
    let programs = try TemporaryDirectory()
    let systemctl = try programs.write("#!/bin/sh\necho \"$*\"\n", to: "systemctl")
    #expect(chmod(systemctl, 0o755) == 0)
    let unit = try self.line(of: "man/connctl.1", with: "=syncthing.service")
    let command = unit.replacing("ExecStart=", with: "exec ")
    let keep = try self.script("\(command) --grace 0s", lab, path: programs.path)
    func expect(_ verb: String) throws {
      #expect(try keep.nextLine() == "--user --no-block \(verb) -- syncthing.service")
    }
    try expect("start")
    try lab.namespace.ip("route replace default via 203.0.113.1")
    try expect("stop")
    try lab.namespace.ip("route replace default via 198.51.100.1")
    try expect("start")
    // The phone's hotspot looks like any other Wi-Fi network, until its user says what it costs.
    #expect(try lab.connctl("metered", "on").status == 0)
    try expect("stop")
    try lab.namespace.ip("route replace default via 192.0.2.1")
    try expect("start")
    try lab.namespace.ip("route replace default via 198.51.100.1")
    try expect("stop")
    #expect(try lab.connctl("metered", "auto").status == 0)
    try expect("start")
  }

  @Test("a boot script waits for connd and the network, and has a limit")
  func boot() throws {
    let lab = try self.laptop()
    try lab.namespace.ip("route del default")
    let line = try self.line(of: "README.md", with: "connctl wait online --timeout")
    let script = try self.script("\(line)\necho the network is there", lab)
    try lab.startConnd()
    try waitUntil("the script waits") {
      try lab.connctl("stats").output.contains(/subscribers +1\n/)
    }
    try lab.namespace.ip("route add default via 192.0.2.1")
    #expect(try script.nextLine() == "the network is there")
    #expect(try script.wait() == 0)

    try lab.outside.ip("link set eth0 down")
    let short = line.replacing("30s", with: "500ms")
    let late = try self.script("\(short)\necho the network is there", lab)
    #expect(try late.wait() == 1)
    #expect(try late.remainingOutput() == "")
    #expect(late.standardError.contains("“online” does not hold after 500ms"))
  }

  @Test("a Python service prints each change, with the lines of the README")
  func python() throws {
    let lab = try self.laptop()
    try lab.startConnd()
    let readme = try Command.run(["cat", Checkout.path("README.md")])
    let block = try #require(readme.split(separator: "```python\n").dropFirst().first)
    let lines = try #require(block.split(separator: "```").first)
    let program = try lab.directory.write(
      """
      import grpc, functools
      from connectivity.v1 import connectivity_pb2 as pb, connectivity_pb2_grpc as rpc
      print = functools.partial(print, flush=True)
      \(lines.replacing("/run/connd/connd.sock", with: lab.socket))
      """, to: "follow.py")
    let service = try Python.run(program, [], in: lab.namespace)
    try service.line { $0.hasSuffix(" transition True eth0") || $0.contains("napshot") }
    try lab.namespace.ip("route replace default via 198.51.100.1")
    try service.line { $0.hasSuffix(" transition True wlan0") }
    try lab.namespace.ip("route del default")
    try service.line { $0.contains(" transition False ") }
  }

  @Test(
    "Docker and WireGuard: ports are counted, and the history says when the VPN came up",
    .enabled(if: TunDevice.isAvailable, "/dev/net/tun may not be opened here"))
  func containers() throws {
    let lab = try Uplinks.laboratory(["eth0"])
    try lab.namespace.ip("link add docker0 type bridge")
    try lab.namespace.ip("link set docker0 up")
    for port in ["veth1", "veth2"] {
      try lab.namespace.ip("link add \(port) type veth peer netns \(lab.outside.name)")
      try lab.namespace.ip("link set \(port) master docker0 up")
    }
    try lab.startConnd()
    let links = try lab.connctl("links").output
    #expect(links.contains(/docker0 +bridge .*2 ports/), "\(links)")
    #expect(!links.contains("veth1"))
    #expect(try lab.connctl("links", "--all").output.contains("veth1"))

    let wireGuard = try WireGuard(lab, to: Uplinks.server)
    try waitUntil("the history has the VPN") {
      try lab.connctl("history").output.contains(
        try Regex(" path  .*\(wireGuard.link).*: (rule|route) added"))
    }
    // The tunnel's own packets have a mark, and do not go through it.
    let own = try lab.connctl("explain", Uplinks.server, "--mark", "0xca6c").output
    #expect(own.hasPrefix("Traffic leaves by eth0"), "\(own)")
    let all = try lab.connctl("explain").output
    #expect(all.contains("eth0, the default route with fwmark 0xca6c"), "\(all)")
  }
}
