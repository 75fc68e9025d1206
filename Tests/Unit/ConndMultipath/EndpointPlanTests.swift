import Connectivity
import Netlink
import TestKit
import Testing

@testable import ConndMultipath

/// The endpoints that the state of the links demands, as text: `+2b` adds a backup on link 2, `-1`
/// deletes, `b1` and `n1` set and clear the flag, `(1)` is unflagged, `!1` has no endpoint.
@Suite("Endpoint plans")
struct EndpointPlanTests {
  private static func address(_ link: UInt32, _ host: UInt8 = 2) -> IPAddress {
    guard let address = IPAddress(bytes: [10, UInt8(truncatingIfNeeded: link), 0, host]) else {
      preconditionFailure("four bytes are an address")
    }
    return address
  }

  private static func endpoint(
    _ link: UInt32, _ flags: MultipathEndpoint.Flags = .subflow
  ) -> MultipathEndpoint {
    MultipathEndpoint(id: UInt8(link), self.address(link), link: link, flags)
  }

  private static let wifi = Uplink(link: 1, .usable(address(1), isFree: true), isDefault: true)
  private static let modem = Uplink(link: 2, .usable(address(2), isFree: false))
  private static let cable = Uplink(link: 3, .usable(address(3), isFree: true))

  private static let limping = Uplink(
    link: 1, .usable(address(1), isFree: true, limps: true), isDefault: true)

  private static func postponed(_ uplink: Uplink) -> Uplink {
    Self.refused(uplink, .noDefaultPath)
  }

  private static func refused(_ uplink: Uplink, _ reason: OtherWay.Reason) -> Uplink {
    var uplink = uplink
    uplink.objection = reason
    return uplink
  }

  private static func lost(_ link: UInt32, isDefault: Bool = false) -> Uplink {
    Uplink(link: link, .lost, isDefault: isDefault)
  }

  private static func text(_ action: EndpointPlan.Action) -> String {
    switch action {
    case .delete(let endpoint): "-\(endpoint.link)"
    case .add(let endpoint): "+\(endpoint.link)" + (endpoint.flags == .subflow ? "" : "b")
    case .setBackup(let isBackup, let endpoint): (isBackup ? "b" : "n") + "\(endpoint.link)"
    }
  }

  private struct Row: Sendable, CustomTestStringConvertible {
    var name: String
    var uplinks: [Uplink]
    var endpoints: [MultipathEndpoint] = []
    var foreign: [MultipathEndpoint] = []
    var adopts = false
    /// The links of each connection's subflows.
    var connections: [[UInt32]] = []
    var expected: String
    var testDescription: String { self.name }
  }

  private static let rows: [Row] = [
    Row(name: "no link", uplinks: [], expected: ""),
    Row(name: "one link", uplinks: [wifi], expected: "+1"),
    Row(name: "Wi-Fi and a modem", uplinks: [wifi, modem], expected: "+1 +2b"),
    Row(
      name: "Wi-Fi and a cable that is not the default", uplinks: [wifi, cable], expected: "+1 +3b"),
    Row(name: "a modem alone", uplinks: [modem], expected: "+2b"),
    Row(
      name: "the modem is the default, the cable costs nothing",
      uplinks: [Uplink(link: 2, .usable(address(2), isFree: false), isDefault: true), cable],
      expected: "+3 +2b"),
    Row(
      name: "everything is as it should be", uplinks: [wifi, modem],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])], expected: ""),
    Row(
      name: "the Wi-Fi is lost", uplinks: [lost(1), modem],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])], expected: "-1"),
    Row(
      name: "the Wi-Fi is lost, and the cable becomes the best",
      uplinks: [lost(1, isDefault: true), modem, cable],
      endpoints: [
        endpoint(1), endpoint(2, [.subflow, .backup]), endpoint(3, [.subflow, .backup]),
      ], expected: "-1 n3"),
    Row(
      name: "the Wi-Fi is back", uplinks: [wifi, cable], endpoints: [endpoint(3)],
      expected: "+1 b3"),
    Row(
      name: "the Wi-Fi limps beside a cable", uplinks: [limping, cable],
      endpoints: [endpoint(1), endpoint(3, [.subflow, .backup])], expected: "n3 b1"),
    Row(
      name: "the Wi-Fi is well again", uplinks: [wifi, cable],
      endpoints: [endpoint(1, [.subflow, .backup]), endpoint(3)], expected: "n1 b3"),
    Row(
      name: "the Wi-Fi limps beside a modem", uplinks: [limping, modem],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])], expected: ""),
    Row(
      name: "the Wi-Fi is removed", uplinks: [cable],
      endpoints: [endpoint(1), endpoint(3, [.subflow, .backup])], expected: "-1 n3"),
    Row(
      name: "the last way is lost", uplinks: [lost(1)], endpoints: [endpoint(1)], expected: ""),
    Row(
      name: "the Wi-Fi has another address",
      uplinks: [Uplink(link: 1, .usable(address(1, 9), isFree: true), isDefault: true)],
      endpoints: [endpoint(1)], expected: "-1 +1"),
    Row(
      name: "the Wi-Fi's address has moved to another link, and a connection needs it",
      uplinks: [Uplink(link: 9, .usable(address(1), isFree: true), isDefault: true), modem],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])], connections: [[1]], expected: ""),
    Row(
      name: "connd has not reported the Wi-Fi",
      uplinks: [Uplink(link: 1, .unknown), postponed(modem)], endpoints: [endpoint(1)],
      expected: ""),
    Row(
      name: "the default way is lost", uplinks: [lost(1), postponed(cable)],
      endpoints: [endpoint(1)], expected: "-1"),
    Row(
      name: "a tunnel is the default way",
      uplinks: [refused(wifi, .tunnel), refused(modem, .tunnel)],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])], connections: [[1]],
      expected: "-1 -2"),
    Row(
      name: "another program's endpoint of a lost link", uplinks: [lost(1), modem],
      foreign: [endpoint(1)], expected: "+2b"),
    Row(
      name: "another program's endpoints", uplinks: [wifi, modem],
      foreign: [endpoint(1), endpoint(2)], expected: "(2)"),
    Row(
      name: "another program's endpoints are adopted", uplinks: [wifi, modem],
      foreign: [endpoint(1), endpoint(2)], adopts: true, expected: "b2"),
    Row(
      name: "another program's announced address is adopted", uplinks: [wifi, modem],
      foreign: [endpoint(1), endpoint(2, .signal)], adopts: true, expected: "(2)"),
    Row(
      name: "another program's endpoints while a tunnel is the default way",
      uplinks: [refused(wifi, .ownRoute), refused(modem, .ownRoute)],
      foreign: [endpoint(1), endpoint(2)], expected: ""),
    Row(
      name: "the kernel's implicit endpoint", uplinks: [wifi], foreign: [endpoint(1, .implicit)],
      expected: "+1"),
    Row(
      name: "ten cables",
      uplinks: (1...10).map { Uplink(link: $0, .usable(address($0), isFree: true)) },
      expected: "+1 +2b +3b +4b +5b +6b +7b +8b !9 !10"),
    Row(
      name: "a better link than eight",
      uplinks: (1...8).map { Uplink(link: $0, .usable(address($0), isFree: true)) }
        + [Uplink(link: 9, .usable(address(9), isFree: true), isDefault: true)],
      endpoints: [endpoint(1)] + (2...8).map { endpoint($0, [.subflow, .backup]) },
      expected: "-8 +9 b1 !8"),
    Row(
      name: "a better link than eight, and a connection needs the worst",
      uplinks: (1...8).map { Uplink(link: $0, .usable(address($0), isFree: true)) }
        + [Uplink(link: 9, .usable(address(9), isFree: true), isDefault: true)],
      endpoints: [endpoint(1)] + (2...8).map { endpoint($0, [.subflow, .backup]) },
      connections: [[8]], expected: "b1 !8"),
    Row(
      name: "other programs have all endpoints", uplinks: [wifi],
      foreign: (11...18).map { endpoint($0) }, expected: "!1"),
  ]

  private static let neededRows: [Row] = [
    Row(
      name: "each connection has another subflow", uplinks: [lost(1), modem],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])],
      connections: [[1, 2], [2, 1], [2], []], expected: "-1"),
    Row(
      name: "a connection has no other subflow", uplinks: [lost(1), modem],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])], connections: [[1, 2], [1]],
      expected: "n2 b1"),
    Row(
      name: "the flags are swapped", uplinks: [lost(1), modem],
      endpoints: [endpoint(1, [.subflow, .backup]), endpoint(2)], connections: [[1]], expected: ""),
    Row(
      name: "the other subflow is lost, too", uplinks: [lost(1), lost(3), modem],
      endpoints: [endpoint(1), endpoint(3, [.subflow, .backup]), endpoint(2)],
      connections: [[1, 3]], expected: "b1"),
    Row(
      name: "the other subflow is from an unknown address", uplinks: [lost(1), modem],
      endpoints: [endpoint(1), endpoint(2)], connections: [[1, 4]], expected: "b1"),
    Row(
      name: "the lost link is back", uplinks: [wifi, modem],
      endpoints: [endpoint(1, [.subflow, .backup]), endpoint(2)], connections: [[1]],
      expected: "n1 b2"),
    Row(
      name: "the new endpoint takes over", uplinks: [lost(1), modem], endpoints: [endpoint(1)],
      connections: [[1]], expected: "+2 b1"),
    Row(
      name: "the address has changed under a connection",
      uplinks: [Uplink(link: 1, .usable(address(1, 9), isFree: true), isDefault: true)],
      endpoints: [endpoint(1)], connections: [[1]], expected: "+1 b1"),
    Row(
      name: "the last way is lost under a connection", uplinks: [lost(1)],
      endpoints: [endpoint(1)], connections: [[1]], expected: ""),
    Row(
      name: "costs are not allowed", uplinks: [wifi, refused(modem, .expensive)],
      endpoints: [endpoint(1)], expected: "!2"),
    Row(
      name: "costs are not allowed any more",
      uplinks: [wifi, refused(modem, .switchedOff)],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])], connections: [[1, 2]],
      expected: "-2 !2"),
    Row(
      name: "costs are not allowed any more, and a connection has only the modem",
      uplinks: [wifi, refused(modem, .switchedOff)],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])], connections: [[1, 2], [2]],
      expected: "!2"),
    Row(
      name: "costs are not allowed, and the Wi-Fi is lost",
      uplinks: [lost(1), refused(modem, .expensive)], endpoints: [endpoint(1)],
      connections: [[1]], expected: "!2"),
  ]

  @Test(
    "M2 M4 M5 M6 W6 the state of the links → the changes of the endpoints",
    arguments: rows + neededRows)
  private func changes(row: Row) {
    let subflows = row.connections.enumerated().flatMap { number, links in
      links.map { EndpointPlan.Subflow(of: .token(UInt32(number)), from: Self.address($0)) }
    }
    let plan = EndpointPlan(
      row.uplinks, row.endpoints + row.foreign, own: Set(row.endpoints.map(\.asMade)),
      adopts: row.adopts, subflows: subflows)
    let excluded = plan.excluded.keys.map(\.link).sorted().map { "!\($0)" }
    let words = plan.actions.map(Self.text) + plan.unflagged.map { "(\($0.link))" } + excluded
    #expect(words.joined(separator: " ") == row.expected, "\(row.name)")
  }

  @Test("M6 the subflows are unknown → no endpoint is deleted, and the subflows are queried")
  func unknownSubflows() {
    let endpoints = [Self.endpoint(1), Self.endpoint(2, [.subflow, .backup])]
    let plan = EndpointPlan(
      [Self.lost(1), Self.modem], endpoints, own: Set(endpoints.map(\.asMade)))
    #expect(plan.needsSubflows)
    #expect(plan.actions.map(Self.text) == ["n2", "b1"])
    let well = EndpointPlan([Self.wifi, Self.modem], endpoints, own: Set(endpoints.map(\.asMade)))
    #expect(!well.needsSubflows && well.actions.isEmpty)
  }

  private static let foreign: [MultipathEndpoint] = [
    MultipathEndpoint(id: 9, address(1), link: 1, .subflow),
    MultipathEndpoint(id: 1, address(1), link: 9, .subflow),
    MultipathEndpoint(id: 1, address(1), link: 1, [.subflow, .signal]),
    MultipathEndpoint(id: 1, address(1), link: 1, [.subflow, .init(rawValue: 1 << 3)]),
  ]

  @Test(
    "M2 the endpoint of the same address has another number, link or flag → it is another program's",
    arguments: foreign)
  private func others(found: MultipathEndpoint) {
    let plan = EndpointPlan(
      [Self.lost(1), Self.cable], [found], own: [Self.endpoint(1)], subflows: [])
    #expect(plan.actions.map(Self.text) == ["+3"])
  }

  @Test("M2 a stored endpoint is known by its number, and forgotten when the list lacks it")
  func store() throws {
    let directory = try TemporaryDirectory()
    let path = "\(directory.path)/endpoints"
    let made = Self.endpoint(1, [.subflow, .backup])
    var unnumbered = made
    unnumbered.id = 0
    var store = EndpointStore(path: path)
    try store.insert(unnumbered)
    try store.compare(with: [made, Self.endpoint(2)])
    #expect(store.endpoints == [Self.endpoint(1)])
    #expect(EndpointStore(path: path).endpoints == [Self.endpoint(1)])
    var reader = EndpointStore(path: path, isWritten: false)
    try reader.compare(with: [])
    #expect(reader.endpoints.isEmpty)
    #expect(EndpointStore(path: path).endpoints == [Self.endpoint(1)])
    // Earlier versions wrote no number.
    try directory.write("10.1.0.2 1\n", to: "endpoints")
    #expect(EndpointStore(path: path).endpoints == [unnumbered.asMade])
    try store.compare(with: [Self.endpoint(2)])
    #expect(EndpointStore(path: path).endpoints.isEmpty)
  }

  @Test("M2 the families have their own best links")
  func families() throws {
    let address6 = try #require(IPAddress("2001:db8::2"))
    let plan = EndpointPlan(
      [
        Self.wifi, Self.cable,
        Uplink(link: 3, family: .ipv6, .usable(address6, isFree: true), isDefault: true),
      ], [], own: [])
    #expect(
      plan.actions == [
        .add(MultipathEndpoint(Self.address(1), link: 1, .subflow)),
        .add(MultipathEndpoint(Self.address(3), link: 3, [.subflow, .backup])),
        .add(MultipathEndpoint(address6, link: 3, .subflow)),
      ])
  }

  @Test(
    "M2 an error in the configuration names the file, the line and the key",
    arguments: [
      ("adopt: yes", "f:1: adopt: must be true or false"),
      ("# comment\nadop: true", "f:2: unknown key 'adop'"),
      ("adopt: true\nadopt: true", "f:2: duplicate key 'adopt'"),
      ("adopt", "f:1: expected 'key: value'"),
    ])
  func settingsErrors(text: String, message: String) {
    let error = #expect(throws: SettingsError.self) { try MultipathSettings(text, file: "f") }
    #expect(error?.message == message)
  }

  @Test("M2 the configuration is read with comments and empty lines")
  func settings() throws {
    #expect(try MultipathSettings("\n# x\nadopt: true  # y\n", file: "f").adopt)
    #expect(try MultipathSettings("# x\r\nadopt: true\r\n", file: "f").adopt)
    #expect(try !MultipathSettings("", file: "f").adopt)
  }
}
