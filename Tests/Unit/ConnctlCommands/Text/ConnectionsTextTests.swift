import Connectivity
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

@Suite("The text of connections")
struct ConnectionsTextTests {
  private static let ssh = ListedConnection(
    connection: .sample, owner: SocketOwner(process: 4711, name: "ssh"))
  private static let web = ListedConnection(connection: .alive)

  @Test("the dead come first, with their reason and process")
  func table() {
    expectLines(
      Style.plain(width: 90).connections([Self.web, Self.ssh]),
      """
      LOCAL            REMOTE            LINK   PROCESS   STATE
      192.0.2.7:42912  203.0.113.9:22    wlan0  ssh 4711  dead: eth0 has no carrier
      192.0.2.7:38000  198.51.100.7:443  wlan0  root      alive
      """)
    #expect(Style.plain(width: 90).connections([]) == [])
  }

  @Test("each reason has its words")
  func reasons() {
    func words(
      _ reason: Connectivity_V1_InvalidationReason,
      _ severity: Connectivity_V1_InvalidationSeverity,
      _ change: (inout Connectivity_V1_Connection) -> Void = { _ in }
    ) -> String {
      var listed = Self.ssh
      (listed.connection.reason, listed.connection.severity) = (reason, severity)
      change(&listed.connection)
      return listed.text
    }
    #expect(words(.sourceAddressLost, .destroy) == "dead: 192.0.2.7 is gone")
    #expect(words(.interfaceLost, .destroy) { $0.interfaceState = .down } == "dead: eth0 is down")
    #expect(
      words(.interfaceLost, .destroy) { $0.interfaceState = .up } == "dead: no route by eth0")
    let port = words(.interfaceLost, .destroy) {
      $0.interfaceState = .up
      var path = KernelPath.wlan
      (path.chain, path.status) = ([KernelPath.Link(index: 2, name: "eth0")], .requiresConnection)
      path.reason = .noSourceAddress
      $0.path = Connectivity_V1_Path(path)
    }
    #expect(port == "dead: eth0 has no usable source address")
    #expect(words(.interfaceLost, .destroy) { $0.clearInterface() } == "dead: its link is gone")
    #expect(words(.networkChanged, .destroy) == "dead: eth0 is on another network")
    #expect(words(.silent, .destroy) == "dead: no answer for 12 s")
    #expect(
      words(.betterPath, .destroy) == "to replace: traffic now leaves by wlan0")
    #expect(words(.interfaceLost, .drain) == "to replace: eth0 has no carrier")
    #expect(
      words(.interfaceLost, .advise) == "in doubt: eth0 has no carrier, no answer for 12 s")
    #expect(
      words(.interfaceLost, .advise) { $0.path.status = .requiresConnection }
        == "in grace: eth0 has no carrier")
  }

  @Test("a connection whose path works but whose peer is silent says so")
  func silent() {
    var listed = Self.web
    listed.connection.socket = Connectivity_V1_Connection.sample.socket
    #expect(listed.text == "alive, no answer for 12 s")
    listed.connection.path.status = .unknown
    #expect(listed.text == "unknown, no answer for 12 s")
  }

  @Test("--watch shows new, changed and ended connections only")
  func changes() {
    var changes = ConnectionChanges()
    #expect(changes.update(to: [Self.web, Self.ssh]).map(\.connection) == [Self.ssh, Self.web])
    #expect(changes.update(to: [Self.web, Self.ssh]).isEmpty)
    var doubted = Self.web
    (doubted.connection.reason, doubted.connection.severity) = (.interfaceLost, .advise)
    #expect(changes.update(to: [doubted, Self.ssh]).map(\.connection) == [doubted])
    let ended = changes.update(to: [doubted])
    #expect(ended == [.init(connection: Self.ssh, hasEnded: true)])
    expectLines(
      Style.plain(width: .max).connection(Self.ssh, hasEnded: true, now: .sample)
        .map { String($0.dropFirst(14)) },
      "ended             192.0.2.7:42912 to 203.0.113.9:22 ssh 4711")
  }
}
