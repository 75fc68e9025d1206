import TestKit
import TestTraits
import Testing

/// The experiments that could refute the times of E1 and E4: idle connections live, although the
/// lookup's link has failed, and something delays or loses the questions to their peers. Longer
/// troubles are in docs/decisions.md.
@Suite(
  "Times of questions", .needsNamespaces, .blocking, .serialized, .needsAll("a minute and a half"))
struct QuestionNumbersScenario {
  struct Trouble: CustomTestStringConvertible, Sendable {
    var testDescription: String
    /// The time that a packet needs in each direction before the change, in milliseconds.
    var before = 5
    /// The same from the change on.
    var after = 5
    /// The share of packets that is lost from the change on.
    var loss = 0.0
    /// How long that lasts, in milliseconds, or `nil` for ever.
    var lasts: Int?
    /// How many of 20 connections are given up at most, although all of them live.
    var most = 0
  }

  static let troubles = [
    Trouble(testDescription: "none, near", before: 0, after: 0),
    Trouble(testDescription: "a peer 150 ms away", before: 75, after: 75),
    Trouble(testDescription: "a peer 2 s away", before: 1000, after: 1000),
    Trouble(testDescription: "a queue of 300 ms in the router", after: 155),
    Trouble(testDescription: "a phone that sleeps for 0.8 s", after: 400),
    // With one probe instead of three, six were given up.
    Trouble(testDescription: "loss of 10 %", loss: 0.1, most: 3),
    Trouble(testDescription: "a blip of 0.15 s", loss: 1, lasts: 150),
    Trouble(testDescription: "a blip of 0.3 s", loss: 1, lasts: 300),
  ]

  @Test(
    "I0 E1 E4 a live idle connection is asked while something delays its peer", arguments: troubles)
  func asked(_ trouble: Trouble) throws {
    let lab = try Uplinks.laboratory(["eth0"])
    let other = try LossyLink("eth1", 1, in: lab, delay: .milliseconds(trouble.before))
    try Uplinks.mark(in: lab)
    try lab.start()
    let server = try EchoServer(lab)
    let client = try server.client(to: Uplinks.server, ["--by", "socket"])
    for number in 1...20 {
      try client.connect(number)
      try client.next("path", of: "\(number)")
      try client.expectEcho(number)
    }
    // Idle connections are asked immediately.
    let rest = ContinuousClock.now + .milliseconds(1100)
    try waitUntil("all are idle") { ContinuousClock.now > rest }
    other.delay(.milliseconds(trouble.after))
    other.lose(trouble.loss)
    let start = ContinuousClock.now
    try lab.unplug("eth0")
    var isOver = trouble.lasts == nil
    var destroyed = 0
    try waitUntil("each connection is spared or given up") {
      if !isOver, let lasts = trouble.lasts, start + .milliseconds(lasts) < .now {
        other.lose(0)
        isOver = true
      }
      try client.send("sync 0")
      try client.next("synced", of: "0")
      destroyed = client.count { $0.event == "destroy" || $0.event == "drain" }
      return destroyed + (try lab.statistics().spared) >= 20
    }
    print("\(trouble.testDescription): \(destroyed) of 20 given up, \(start.duration(to: .now))")
    #expect(destroyed <= trouble.most)
    try client.quit()
    try server.end()
  }
}
