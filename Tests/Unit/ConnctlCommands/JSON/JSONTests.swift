import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

@Suite("JSON")
struct JSONTests {
  @Test(
    "strings are escaped as in RFC 8259",
    arguments: [
      ("", #""""#), ("a\"b\\c", #""a\"b\\c""#), ("\n\r\t", #""\n\r\t""#),
      ("\u{0}\u{1F}\u{1B}", #""\u0000\u001f\u001b""#), ("straße 漢 🛜", #""straße 漢 🛜""#),
      ("\r\n", #""\r\n""#), ("e\u{301}", "\"e\u{301}\""),
      ("\u{85}\u{9B}31m", #""\u0085\u009b31m""#),
      ("eth0\u{202E}\u{2066}\u{61C}\u{2028}", #""eth0\u202e\u2066\u061c\u2028""#),
    ])
  func escapes(text: String, json: String) {
    #expect(JSON.string(text).description == json)
  }

  @Test(
    "a character that needs an escape is found at each place of a string of any length",
    arguments: [("\"", "\\\""), ("\\", "\\\\"), ("\n", "\\n"), ("\u{7F}", "\\u007f")])
  func escapePlaces(character: String, escape: String) {
    for length in 0...20 {
      for place in 0...length {
        let (before, after) = (
          String(repeating: "a", count: place), String(repeating: "~", count: length - place)
        )
        let text = JSON.string(before + character + after).description
        #expect(text == "\"" + before + escape + after + "\"")
      }
    }
  }

  @Test("one line, keys in order")
  func shape() {
    let value: JSON = [
      "z": .number(9_007_199_254_740_991 as UInt64), "a": [true, nil, "x", [:], []], "z\"": false,
    ]
    #expect(
      value.description == #"{"z": 9007199254740991, "a": [true, null, "x", {}, []], "z\"": false}"#
    )
  }
}

/// design: these shapes change only with a major version.
@Suite("JSON shapes")
struct JSONShapeTests {
  static let wlan =
    #"{"status": "satisfied", "reason": null, "interface": "wlan0", "chain": ["wlan0"], "medium": "wifi", "#
    + #""source": "192.0.2.7", "gateway": "192.0.2.1", "table": 254, "expensive": false, "constrained": false}"#
  static let noRoute =
    #"{"status": "unsatisfied", "reason": "noRoute", "interface": null, "chain": [], "medium": "unknown", "#
    + #""source": null, "gateway": null, "table": null, "expensive": false, "constrained": false}"#
  static let noCarrier =
    #"{"status": "requiresConnection", "reason": "noCarrier", "interface": "wlan0", "chain": ["wlan0"], "#
    + #""medium": "wifi", "source": "192.0.2.7", "gateway": "192.0.2.1", "table": 254, "expensive": false, "#
    + #""constrained": false}"#

  static func status(_ generation: UInt64) -> String {
    #"{"generation": \#(generation), "category": "wifi", "threeWay": "wifi", "#
      + #""since": "2026-11-21T01:25:00.123456Z", "#
      + #""flags": {"reachable": true, "connectionRequired": false, "isWWAN": false}, "#
      + #""interface": "wlan0", "medium": "wifi", "expensive": false, "constrained": false, "#
      + #""ipv4": \#(Self.wlan), "ipv6": \#(Self.noRoute)}"#
  }

  static func offline(_ generation: UInt64) -> String {
    #"{"generation": \#(generation), "category": "none", "threeWay": "none", "#
      + #""since": "2026-11-21T01:25:00.123456Z", "#
      + #""flags": {"reachable": true, "connectionRequired": true, "isWWAN": false}, "#
      + #""interface": "wlan0", "medium": "wifi", "expensive": false, "constrained": false, "#
      + #""ipv4": \#(Self.noCarrier), "ipv6": \#(Self.noRoute)}"#
  }

  static let carrierLost =
    #"{"trigger": "link", "change": "carrierLost", "message": "RTM_NEWLINK", "interface": "wlan0", "#
    + #""learntLate": false}"#

  @Test("status")
  func status() {
    #expect(JSON.status(.sample).description == Self.status(17))
  }

  @Test("path with a chain")
  func path() {
    #expect(
      JSON.path(.stack, to: "2001:db8::1").description
        == #"{"destination": "2001:db8::1", "status": "satisfied", "reason": null, "interface": "vlan10", "#
        + #""chain": ["vlan10", "bond0", "eth0"], "medium": "wired", "#
        + #""source": "2001:db8:1111:2222:3333:4444:5555:6666", "gateway": "fe80::1234:5678:9abc:def0", "#
        + #""table": 254, "expensive": true, "constrained": false}"#)
  }

  @Test("watch: snapshot and gap")
  func snapshots() {
    #expect(
      JSON.event(.snapshot(.sample))?.description
        == #"{"event": "snapshot", "generation": 17, "status": \#(Self.status(17))}"#)
    #expect(
      JSON.event(.gap(.sample))?.description
        == #"{"event": "gap", "generation": 17, "status": \#(Self.status(17))}"#)
  }

  @Test("watch: transition")
  func transition() {
    #expect(
      JSON.event(.change(.transition(.sample)))?.description
        == #"{"event": "transition", "generation": 18, "from": "wifi", "to": "none", "bounced": false, "#
        + #""cause": \#(Self.carrierLost), "status": \#(Self.offline(18))}"#)
  }

  @Test("watch: path")
  func pathChange() {
    #expect(
      JSON.event(.change(.path(.sample)))?.description
        == #"{"event": "path", "generation": 20, "status": \#(Self.status(20)), "cause": {"trigger": "address", "#
        + #""change": "addressAdded", "message": "RTM_NEWADDR", "interface": "wlan0", "learntLate": false}}"#
    )
  }

  @Test("watch: invalidation; a scope has all four keys, null is any")
  func invalidation() {
    #expect(
      JSON.event(.change(.invalidation(.sample)))?.description
        == #"{"event": "invalidation", "generation": 21, "reason": "interfaceLost", "severity": "destroy", "#
        + #""scope": {"interface": "wlan0", "family": "ipv4", "localAddresses": null, "destination": null}, "#
        + #""cause": \#(Self.carrierLost), "time": "2026-11-21T01:25:00.123456Z"}"#)
    #expect(
      JSON.event(.change(.invalidation(.everything)))?.description
        == #"{"event": "invalidation", "generation": 22, "reason": "categoryChanged", "severity": "advise", "#
        + #""scope": {"interface": null, "family": null, "localAddresses": null, "destination": null}, "#
        + #""cause": {"trigger": "overrun", "change": "read again", "message": null, "interface": null, "#
        + #""learntLate": true}, "time": "2026-11-21T01:25:00.123456Z"}"#)
  }

  @Test("guard: path and invalidation")
  func flow() throws {
    let remote = try #require(IPAddress("192.0.2.80"))
    let local = try #require(IPAddress("192.0.2.7"))
    #expect(
      JSON.flow(.path(.wlan), generation: 17, destination: remote, local: nil)?.description
        == #"{"event": "path", "generation": 17, "destination": "192.0.2.80", "#
        + Self.wlan.dropFirst())
    let event = FlowEvent.invalidation(.sample)
    #expect(
      JSON.flow(event, generation: 21, destination: remote, local: local)?.description
        == #"{"event": "invalidation", "generation": 21, "reason": "interfaceLost", "severity": "destroy", "#
        + #""scope": {"interface": null, "family": "ipv4", "localAddresses": ["192.0.2.7"], "#
        + #""destination": "192.0.2.80"}, "cause": \#(Self.carrierLost), "socket": null}"#)
    #expect(
      JSON.flow(event, generation: 21, destination: remote, local: nil)?.description
        .contains(#""localAddresses": null"#) == true)
  }

  @Test("watch: dns")
  func dns() {
    #expect(
      JSON.event(.change(.dns(.sample)))?.description
        == #"{"event": "dns", "generation": 21, "servers": ["192.0.2.53", "fe80::1%wlan0"], "#
        + #""search": ["example.org"], "links": [{"interface": "wlan0", "servers": ["192.0.2.53"], "#
        + #""search": []}], "cause": {"trigger": "dns", "change": "serversChanged", "message": null, "#
        + #""interface": null, "learntLate": false}}"#)
  }

  @Test("watch: a connection event has no JSON")
  func connection() {
    #expect(JSON.event(.resumed(after: 3)) == nil)
    #expect(JSON.event(.disconnected(.notAvailable(""))) == nil)
  }

  @Test("history has the transitions of watch with their times, and their invalidations")
  func history() {
    #expect(
      JSON.history(.invalidation(.sample)) == JSON.event(.change(.invalidation(.sample))))
    #expect(
      JSON.history(.transition(.bounce)).description
        == #"{"event": "transition", "generation": 19, "time": "2026-11-21T01:25:00.123456Z", "#
        + #""from": "wifi", "to": "wifi", "bounced": true, "cause": {"trigger": "overrun", "#
        + #""change": "read again", "message": null, "interface": null, "learntLate": true}, "#
        + #""status": \#(Self.status(19))}"#)
  }

  @Test("links")
  func links() {
    #expect(
      JSON.link(.wlan).description
        == #"{"index": 3, "name": "wlan0", "kind": null, "medium": "wifi", "#
        + #""evidence": {"source": "phy80211", "value": "phy0", "medium": "wifi"}, "state": "up", "#
        + #""expensive": true, "constrained": false, "#
        + #""addresses": ["192.0.2.7/24", "2001:db8:1111:2222:3333:4444:5555:6666/64"], "master": null, "#
        + #""lower": null, "defaultIpv4": true, "defaultIpv6": true, "hardwareType": 1, "mtu": 1500, "#
        + #""wireless": {"role": "station", "ssid": "Free \\xe9\u001bWi-Fi", "#
        + #""security": ["personal", "enterprise"], "bssid": "02:00:00:00:01:00", "frequency": 2437, "#
        + #""signal": -52, "transmitRate": 54000000, "receiveRate": null, "retries": null, "#
        + #""metered": true}, "modem": null, "via": null, "viaGuessed": false, "#
        + #""lowerGuessed": false, "alternativeNames": []}"#
    )
    #expect(
      JSON.link(.docker).description
        == #"{"index": 5, "name": "docker0", "kind": "bridge", "medium": "unknown", "evidence": null, "#
        + #""state": "noCarrier", "expensive": false, "constrained": false, "addresses": ["172.17.0.1/16"], "#
        + #""master": "br0", "lower": "eth0", "defaultIpv4": false, "defaultIpv6": false, "hardwareType": 1, "#
        + #""mtu": null, "wireless": null, "modem": null, "via": null, "viaGuessed": false, "#
        + #""lowerGuessed": false, "alternativeNames": []}"#)
    #expect(
      JSON.link(.ppp).description.hasSuffix(
        #""modem": {"connected": true, "suspended": true, "technology": "4G", "roaming": true, "#
          + #""signalQuality": 67}, "#
          + #""via": null, "viaGuessed": false, "#
          + #""lowerGuessed": false, "alternativeNames": []}"#))
    #expect(
      JSON.link(.usb).description.hasSuffix(
        #""via": "phone", "viaGuessed": true, "lowerGuessed": false, "alternativeNames": []}"#))
  }

  @Test("unknown values of a newer connd → the words of the nearest known ones")
  func newerConnd() throws {
    var link = Connectivity_V1_Link.ppp
    link.via = .UNRECOGNIZED(99)
    link.modem.technology = .UNRECOGNIZED(99)
    link.medium = .UNRECOGNIZED(99)
    link.state = .UNRECOGNIZED(99)
    let json = JSON.link(link).description
    #expect(json.contains(#""medium": "unknown""#) && json.contains(#""state": "dormant""#))
    #expect(json.contains(#""technology": null"#) && json.contains(#""via": "device""#))
    #expect(link.text == "ppp0, ppp, dormant, roaming, suspended, signal 67%, via device")
    var explanation = Connectivity_V1_Explanation.sample
    explanation.cost.metering = .UNRECOGNIZED(99)
    explanation.cost.source = .UNRECOGNIZED(99)
    #expect(
      try JSON.explanation(explanation).description.contains(
        #""cost": {"metering": "unknown", "source": "none"}"#))
  }

  @Test("every source of a cost has the word that connd uses")
  func costSources() {
    let words = Connectivity_V1_CostSource.allCases.filter { $0 != .unspecified }
      .map { CostEvidence.Source($0).rawValue }
    #expect(
      words == [
        "configuration", "user", "networkManager", "medium", "accessPoint", "driver", "dhcp",
        "lastKnown", "none",
      ])
  }

  @Test("what discards the traffic is present only if something does")
  func discard() throws {
    var explanation = Connectivity_V1_Explanation.sample
    #expect(try !JSON.explanation(explanation).description.contains("discard"))
    (explanation.discard.rule.priority, explanation.discard.rule.selector) = (50, "from all")
    #expect(
      try JSON.explanation(explanation).description.hasSuffix(
        #", "discard": {"rulePriority": 50, "ruleSelector": "from all", "routePrefix": null, "#
          + #""routePriority": null, "routeTable": null}}"#))
  }

  @Test("a link that an explained path does not use")
  func unused() throws {
    var explanation = Connectivity_V1_Explanation.sample
    explanation.path = Connectivity_V1_Path(.wlan)
    explanation.unusedLinks = [.slower]
    #expect(
      try JSON.explanation(explanation).description.hasSuffix(
        #", "unusedLinks": [{"interface": "eth1", "medium": "wired", "state": "up", "#
          + #""reason": "higherMetric", "routePrefix": "0.0.0.0/0", "routePriority": 700, "#
          + #""routeTable": 254, "gateway": "192.0.2.1", "rulePriority": 32766}]}"#))
    let words = Connectivity_V1_UnusedReason.allCases.filter { $0 != .unspecified }
      .map { UnusedReason($0).rawValue }
    #expect(
      words == [
        "down", "noCarrier", "dormant", "port", "noAddress", "noRoute", "laterRule",
        "lessSpecific", "higherMetric", "equalMetric", "discarded",
      ])
  }

  @Test("a listed connection")
  func listedConnection() throws {
    var listed = ListedConnection(
      connection: .sample, owner: SocketOwner(process: 4711, name: "ssh"))
    #expect(
      try JSON.connection(listed).description
        == #"{"local": "192.0.2.7", "localPort": 42912, "remote": "203.0.113.9", "#
        + #""remotePort": 22, "state": "dead", "reason": "interfaceLost", "severity": "destroy", "#
        + #""interface": "eth0", "interfaceState": "noCarrier", "path": \#(Self.wlan), "#
        + #""user": 1000, "process": 4711, "program": "ssh", "socket": {"lastHeardMs": -12000, "#
        + #""roundTripMs": 0, "timeouts": 5, "unacknowledged": true}, "#
        + #""tcpState": "established", "socketCookie": "4097", "subflow": false, "#
        + #""accepted": true, "controlGroup": "2461"}"#)
    listed.owner = nil
    listed.connection.clearControlGroup()
    listed.connection.tcpState = .unspecified
    listed.connection.clearReason()
    listed.connection.clearSeverity()
    listed.connection.clearInterface()
    listed.connection.clearInterfaceState()
    listed.connection.clearSocket()
    #expect(
      try JSON.connection(listed).description.hasSuffix(
        #""state": "alive", "reason": null, "severity": null, "interface": null, "#
          + #""interfaceState": null, "path": \#(Self.wlan), "user": 1000, "process": null, "#
          + #""program": null, "socket": null, "tcpState": null, "socketCookie": "4097", "#
          + #""subflow": false, "accepted": true, "controlGroup": null}"#))
  }

  @Test("explain")
  func explain() throws {
    var explanation = Connectivity_V1_Explanation.sample
    explanation.path = Connectivity_V1_Path(.wlan)
    explanation.links = [.docker]
    #expect(
      try JSON.explanation(explanation).description
        == #"{"destination": "1.1.1.1", "path": \#(Self.wlan), "#
        + #""rules": [{"priority": 32766, "table": 254, "selector": "from all"}], "#
        + #""routePrefix": "0.0.0.0/0", "routePriority": 600, "links": [\#(JSON.link(.docker))], "#
        + #""flags": {"reachable": true, "connectionRequired": false, "isWWAN": false}, "#
        + #""category": "wired", "probes": [{"destination": "1.1.1.1", "answer": "vlan10 via 192.0.2.1", "#
        + #""agrees": true}, {"destination": "9.9.9.9", "answer": "noRoute", "agrees": false}], "#
        + #""guessedLinks": 0, "guessedBy": null, "cost": null, "lookupIsProof": null, "socket": null, "unusedLinks": []}"#
    )
    explanation.path.guessedLinks = 1
    explanation.guessedBy = "fwmark 0xca6c"
    #expect(
      try JSON.explanation(explanation).description.hasSuffix(
        #""guessedLinks": 1, "guessedBy": "fwmark 0xca6c", "cost": null, "lookupIsProof": null, "socket": null, "unusedLinks": []}"#
      ))
    explanation.cost.metering = .guessYes
    explanation.cost.source = .networkManager
    #expect(
      try JSON.explanation(explanation).description.hasSuffix(
        #", "cost": {"metering": "guessYes", "source": "networkManager"}, "lookupIsProof": null, "socket": null, "unusedLinks": []}"#
      ))
    explanation.socket = Connectivity_V1_SocketTestimony(
      SocketTestimony(
        lastHeard: .milliseconds(-12), roundTrip: .zero, timeouts: 2, hasUnacknowledgedData: true))
    #expect(
      try JSON.explanation(explanation).description.hasSuffix(
        #", "socket": {"lastHeardMs": -12, "roundTripMs": 0, "timeouts": 2, "unacknowledged": true}, "unusedLinks": []}"#
      ))
  }
}
