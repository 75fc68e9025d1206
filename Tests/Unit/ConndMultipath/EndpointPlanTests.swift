import Connectivity
import Netlink
import Testing

@testable import ConndMultipath

/// The endpoints that the state of the links demands, as text: `+2b` adds a backup on link 2, `-1`
/// deletes, `b1` and `n1` set and clear the flag.
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
    var permission = EndpointPlan.Permission.granted
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
      name: "connd has not reported the Wi-Fi", uplinks: [Uplink(link: 1, .unknown), modem],
      endpoints: [endpoint(1)], permission: .postponed, expected: ""),
    Row(
      name: "the default way is lost", uplinks: [lost(1), cable], endpoints: [endpoint(1)],
      permission: .postponed, expected: "-1"),
    Row(
      name: "a tunnel is the default way", uplinks: [wifi, modem],
      endpoints: [endpoint(1), endpoint(2, [.subflow, .backup])], permission: .denied,
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
      uplinks: [wifi, modem],
      foreign: [endpoint(1), endpoint(2)], permission: .denied, expected: ""),
    Row(
      name: "the kernel's implicit endpoint", uplinks: [wifi], foreign: [endpoint(1, .implicit)],
      expected: "+1"),
    Row(
      name: "ten cables",
      uplinks: (1...10).map { Uplink(link: $0, .usable(address($0), isFree: true)) },
      expected: "+1 +2b +3b +4b +5b +6b +7b +8b"),
  ]

  @Test("M2 M4 M5 M6 the state of the links → the changes of the endpoints", arguments: rows)
  private func changes(row: Row) {
    let plan = EndpointPlan(
      row.uplinks, row.endpoints + row.foreign, own: Set(row.endpoints.map(\.place)),
      adopts: row.adopts, row.permission)
    let words = plan.actions.map(Self.text) + plan.unflagged.map { "(\($0.link))" }
    #expect(words.joined(separator: " ") == row.expected, "\(row.name)")
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
    #expect(try !MultipathSettings("", file: "f").adopt)
  }
}
