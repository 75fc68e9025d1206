import Connectivity
import Testing

@testable import ConnectivityRules

/// Flapping links: connd publishes each change of the kernel immediately.
@Suite("Flapping links")
struct FlappingTests {
  /// A link that loses its carrier at each of the instants, and regains it 100 ms later.
  private static func losses(at instants: [Double], of link: String = "wired") -> String {
    (["0s \(link)"]
      + instants.map { "\($0)s \(link):dead | \(($0 * 10 + 1).rounded() / 10)s \(link)" })
      .joined(separator: " | ")
  }

  @Test("T1 losses and gains are published immediately")
  func atOnce() {
    #expect(
      Story.transitions("0s wired | 1s wired:dead | 1.2s wired | 2s wired:dead | 2.001s wifi") == [
        "0s unknown>wired", "1s wired>none", "1.2s none>wired", "2s wired>none", "2.001s none>wifi",
      ])
  }

  @Test("T1 a link flaps → each loss and each gain is published immediately")
  func flapping() {
    let instants = [1.0, 2, 3, 4, 6, 9]
    #expect(
      Story.transitions(Self.losses(at: instants)).dropFirst()
        == ArraySlice(instants.flatMap { ["\(Int($0))s wired>none", "\(Int($0)).1s none>wired"] }))
  }

  @Test("T1 a link flaps beside another → each step to and fro is published immediately")
  func besideAnother() {
    let script =
      "0s wired wifi"
      + (1...4).map { " | \($0)s wired:dead:noroute wifi | \($0).1s wired wifi" }.joined()
    #expect(
      Story.transitions(script).dropFirst()
        == ArraySlice((1...4).flatMap { ["\($0)s wired>wifi", "\($0).1s wifi>wired"] }))
  }

  @Test(
    "T2 a link, route or address goes and comes back four times → four bounces",
    arguments: ["!link", "!route", "!address"])
  func bounces(message: String) {
    let script = "0s wifi" + (1...4).map { " | \($0)s wifi \(message)" }.joined()
    #expect(
      Story.transitions(script) == ["0s unknown>wifi"] + (1...4).map { "\($0)s wifi>wifi bounced" })
  }

  @Test("T1 a link is made again under the same name → its gain is published immediately")
  func remade() {
    let script = "0s wifi" + (1...3).map { " | \($0)s | \($0).1s wifi:index9" }.joined()
    #expect(Story.transitions(script).last == "3.1s none>wifi")
  }

  @Test("K8 a kernel that cannot be asked is not a loss of the link, and its return is not a gain")
  func kernelLost() {
    let script = "0s wifi" + (1...4).map { " | \($0)s ? | \($0).1s wifi" }.joined()
    #expect(
      Story.transitions("\(script) | 5s wifi:dead | 5.1s wifi").suffix(2)
        == ["5s wifi>none", "5.1s none>wifi"])
  }
}
