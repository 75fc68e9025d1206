import Connectivity
import Testing

@Suite("Category")
struct CategoryTests {
  /// Rule K1's table, row by row: reachable, connectionRequired, isWWAN, and the three-way
  /// category.
  static let table: [(Bool, Bool, Bool, ThreeWayCategory)] = [
    (false, false, false, .offline),
    (false, false, true, .offline),
    (false, true, false, .offline),
    (false, true, true, .offline),
    (true, true, false, .offline),
    (true, true, true, .offline),
    (true, false, true, .cellular),
    (true, false, false, .wifi),
  ]

  @Test("K1 the truth table, all eight combinations", arguments: table)
  func truthTable(row: (Bool, Bool, Bool, ThreeWayCategory)) {
    let flags = ReachabilityFlags(
      reachable: row.0, connectionRequired: row.1, isWWAN: row.2)
    for medium in NetworkMedium.allCases {
      #expect(NetworkCategory(flags, medium: medium).threeWay == row.3)
    }
  }

  @Test(
    "K1 the flags say Wi-Fi → the medium decides between wifi, wired and other",
    arguments: [
      (NetworkMedium.wifi, NetworkCategory.wifi), (.wired, .wired), (.tunnel, .other),
      (.bluetooth, .other),
      (.loopback, .other), (.unknown, .other),
    ])
  func mediumTells(medium: NetworkMedium, category: NetworkCategory) {
    let flags = ReachabilityFlags(reachable: true, connectionRequired: false, isWWAN: false)
    #expect(NetworkCategory(flags, medium: medium) == category)
  }

  @Test("K8 unknown counts as online, none does not")
  func online() {
    #expect(NetworkCategory.unknown.isOnline)
    #expect(NetworkCategory.unknown.threeWay == .unknown)
    #expect(NetworkCategory.allCases.filter { !$0.isOnline } == [.offline])
  }
}
