import Connectivity
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Network access")
struct NetworkAccessTests {
  private static let link = KernelPath.Link(index: 2, name: "wwan0")

  @Test(
    "C8 a forbidden path is refused with the reason",
    arguments: [
      (NetworkAccess(), nil),
      (NetworkAccess(allowsExpensiveAccess: false), .expensive),
      (NetworkAccess(allowsConstrainedAccess: false), .constrained),
      (.inexpensive, .constrained),
      (NetworkAccess(prohibitedMedia: [.cellular]), .cellular),
      (NetworkAccess(allowsExpensiveAccess: false, prohibitedMedia: [.cellular]), .cellular),
      (NetworkAccess(prohibitedMedia: [.wifi]), nil),
      (.requiring([.wifi]), .cellular),
      (.requiring([.wifi, .wired]).intersection(.requiring([.wifi, .cellular])), .cellular),
      (.requiring([.wifi, .cellular]), nil),
    ] as [(NetworkAccess, NetworkUnavailableError.Reason?)])
  func refusal(access: NetworkAccess, reason: NetworkUnavailableError.Reason?) {
    let path = KernelPath(
      status: .satisfied, chain: [Self.link], medium: .cellular, isExpensive: true,
      constraint: .constrained)
    #expect(access.refusal(of: path)?.reason == reason)
  }

  @Test("C8 a path that leads nowhere, or is unknown, is not forbidden")
  func nowhere() {
    let access = NetworkAccess(
      allowsExpensiveAccess: false, allowsConstrainedAccess: false,
      prohibitedMedia: Set(NetworkMedium.allCases))
    #expect(access.refusal(of: .unsatisfied(.noRoute)) == nil)
    #expect(access.refusal(of: .unknown) == nil)
  }

  @Test("C8 a call may use the networks that both it and its channel allow")
  func intersection() {
    let both = NetworkAccess(allowsExpensiveAccess: false, prohibitedMedia: [.wifi])
      .intersection(NetworkAccess(allowsConstrainedAccess: false, prohibitedMedia: [.cellular]))
    #expect(
      both
        == NetworkAccess(
          allowsExpensiveAccess: false, allowsConstrainedAccess: false,
          prohibitedMedia: [.wifi, .cellular]))
  }

  @Test(
    "C8 K6 a forbidden medium below a tunnel that is only guessed or unknown destroys nothing",
    arguments: [
      (NetworkMedium.cellular, 0, Invalidation.Severity.destroy), (.cellular, 1, .drain),
      (.tunnel, 0, .drain), (.wifi, 1, nil),
    ] as [(NetworkMedium, Int, Invalidation.Severity?)])
  func guess(medium: NetworkMedium, guessedLinks: Int, severity: Invalidation.Severity?) {
    var path = KernelPath(status: .satisfied, chain: [Self.link], medium: medium)
    path.guessedLinks = guessedLinks
    let access = NetworkAccess.requiring([.wifi, .wired])
    #expect(access.invalidation(by: .path(path))?.severity == severity)
  }

  @Test("C8 each medium has its own reason")
  func media() {
    #expect(
      Set(NetworkMedium.allCases.map { NetworkUnavailableError.Reason($0) }).count
        == NetworkMedium.allCases.count)
  }
}
