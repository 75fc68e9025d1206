import TestKit
import TestTraits
import Testing

/// connd on a machine that seems to have slept. See `Tests/Programs/sleep`.
@Suite("Sleep", .needsNamespaces, .blocking)
struct SleepScenario {
  @Test(
    "I6 after a short sleep all flows are advised, after a long one destroyed",
    arguments: [(10, "advise"), (400, "destroy")])
  func slept(seconds: Int, severity: String) throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    let library = "\(lab.directory.path)/sleep.so"
    _ = try Command.run([
      "cc", "-shared", "-fPIC", "-o", library, Checkout.path("Tests/Programs/sleep/sleep.c"),
      "-ldl",
    ])
    try lab.directory.write("0", to: "slept")
    try lab.startConnd(prefix: [
      "env", "LD_PRELOAD=\(library)", "CONND_TEST_SLEPT=\(lab.directory.path)/slept",
    ])
    let watcher = try Watcher(socket: lab.socket)
    _ = try watcher.next()
    let flow = try GuardedFlow(lab, "203.0.113.9")
    let loopback = try GuardedFlow(lab, "127.0.0.1")

    try lab.directory.write("\(seconds)", to: "slept")
    // Any message wakes connd, just as the timer that the kernel cancels.
    try lab.namespace.ip("link set eth0 mtu 1400")
    let wide = try watcher.nextInvalidation()
    #expect(wide.reason == "resumed")
    #expect(wide.severity == severity)
    #expect(wide.cause.trigger == "sleep")
    #expect(
      wide.scope == .init(interface: nil, family: nil, localAddresses: nil, destination: nil))
    let invalidation = try flow.invalidation()
    #expect(invalidation.reason == "resumed")
    #expect(invalidation.severity == severity)

    // Traffic that never leaves the machine slept at both ends.
    try lab.namespace.ip("link set lo down")
    #expect(try loopback.invalidation().reason != "resumed")
  }
}
