import ArgumentParser
import Connectivity
import ConnectivityRules
import TestKit
import Testing

@testable import ConndServer

@Suite("Configuration")
struct ConfigurationTests {
  static func parse(_ text: String) -> Result<Configuration, ConfigurationError> {
    do throws(ConfigurationError) {
      return .success(try Configuration.parse(text, file: "connd.yaml"))
    } catch {
      return .failure(error)
    }
  }

  @Test("every key is read")
  func everyKey() throws {
    let configuration = try Self.parse(
      """
      socket: /tmp/x.sock
      destinations: {ipv4: [192.0.2.1], ipv6: ["2001:db8::1", "2001:db8::2"]}
      prefer: ipv6
      identify: hidden
      links:
        - {match: "wwan*", medium: cellular, expensive: true}
        - {match: wlp3s0, constrained: true}
      grace: {wifi: 500ms, wired: 3s, route: 2}
      invalidations: {betterPath: drain}
      limits: {connections: 7, connectionsPerUser: 6, streams: 5, streamsPerUser: 4, streamsPerConnection: 3,
        flows: 30, flowsPerUser: 20, flowsPerStream: 10, messageSize: 2KiB}
      """
    ).get()
    #expect(configuration.socket == "/tmp/x.sock")
    #expect(configuration.destinations.ipv4.map(\.description) == ["192.0.2.1"])
    #expect(configuration.destinations.ipv6.map(\.description) == ["2001:db8::1", "2001:db8::2"])
    #expect(configuration.prefer == .ipv6)
    #expect(configuration.identify == .hidden)
    #expect(
      configuration.links.rules == [
        .init(match: "wwan*", medium: .cellular, expensive: true),
        .init(match: "wlp3s0", constraint: .constrained),
      ])
    #expect(
      configuration.invalidations.carrierGrace == [.wifi: .milliseconds(500), .wired: .seconds(3)])
    #expect(configuration.invalidations.routeGrace == .seconds(2))
    #expect(configuration.invalidations.betterPath == .drain)
    #expect(configuration.invalidations.categoryChanged == .destroy)
    let limits = configuration.limits
    #expect(limits.connections == 7 && limits.connectionsPerUser == 6)
    #expect(limits.streams == 5 && limits.streamsPerUser == 4 && limits.streamsPerConnection == 3)
    #expect(limits.flows == 30 && limits.flowsPerUser == 20 && limits.flowsPerStream == 10)
    #expect(limits.messageSize == 2048)
  }

  @Test(
    "a configuration written again → the same configuration, without socket and limits",
    arguments: [
      "", "grace: {wifi: 0s, cellular: 2s, route: 500ms}",
      """
      socket: /tmp/x.sock
      destinations: {ipv4: [192.0.2.1], ipv6: ["2001:db8::1"]}
      prefer: ipv6
      identify: hidden
      links: [{match: "ww*\\"\\\\n [a-z]", medium: cellular, expensive: true}, {match: b, constrained: false}, {match: sat0, constrained: ultra}]
      invalidations: {betterPath: drain, categoryChanged: drain}
      limits: {connections: 7}
      """,
    ])
  func text(_ text: String) throws {
    var expected = try Self.parse(text).get()
    (expected.socket, expected.limits) = (nil, Limits())
    #expect(try Self.parse(expected.text).get() == expected)
  }

  @Test("a missing key → its default", arguments: ["", "# nothing\n", "links:\n", "{}"])
  func defaults(text: String) throws {
    #expect(try Self.parse(text).get() == Configuration())
  }

  @Test(
    "an error names file, line and key",
    arguments: [
      (
        "sockett: /x",
        "connd.yaml:1: sockett: unknown key (did you mean 'socket'?); expected one of"
      ),
      ("link: []", "connd.yaml:1: link: unknown key (did you mean 'links'?); expected one of"),
      (
        "links: [{match: a, metered: true}]",
        "connd.yaml:1: links[0].metered: unknown key (did you mean 'expensive'?); expected one of"
      ),
      ("metered: []", "connd.yaml:1: metered: unknown key; expected one of"),
      (
        "links: [{match: a, medium: celular}]",
        "links[0].medium: 'celular' is not one of wired, wifi, cellular"
      ),
      ("\nprefer: ipv5", "connd.yaml:2: prefer: 'ipv5' is not one of ipv4, ipv6"),
      ("socket: relative", "connd.yaml:1: socket: must be an absolute path"),
      ("socket: [a]", "connd.yaml:1: socket: must be a string"),
      (
        "socket: /\(String(repeating: "é", count: 54))",
        "connd.yaml:1: socket: has 109 bytes, but a socket path has at most 107"
      ),
      ("destinations: {ipv4: [127.0.0.1]}", "destinations.ipv4[0]: '127.0.0.1' is a local address"),
      ("destinations: {ipv6: ['::']}", "destinations.ipv6[0]: '::' is a local address"),
      ("links: wlan0", "connd.yaml:1: links: must be a list"),
      (
        "links: [{match: a, constrained: very}]",
        "links[0].constrained: must be true, false or ultra"
      ),
      (
        "links:\n  - {match: a}\n  - {match: b, medium: wire}",
        "connd.yaml:3: links[1].medium: 'wire' is not one of wired, wifi"
      ),
      ("links:\n  - {medium: wifi}", "connd.yaml:2: links[0]: needs 'match'"),
      ("links:\n  - {match: a, expensive: 3}", "connd.yaml:2: links[0].expensive: must be true"),
      ("links:\n  - {match: a, colour: red}", "connd.yaml:2: links[0].colour: unknown key"),
      (
        "destinations:\n  ipv4: [\"::1\"]",
        "connd.yaml:2: destinations.ipv4[0]: '::1' is not an IPv4 address"
      ),
      ("destinations: {ipv4: []}", "connd.yaml:1: destinations.ipv4: must have between 1 and 16"),
      ("destinations: {ipv5: []}", "connd.yaml:1: destinations.ipv5: unknown key"),
      ("grace: {wifi: soon}", "connd.yaml:1: grace.wifi: 'soon' is not a duration"),
      (
        "invalidations: {betterPath: advise}",
        "connd.yaml:1: invalidations.betterPath: must be destroy or drain"
      ),
      ("grace: {wifi: -1s}", "connd.yaml:1: grace.wifi: '-1s' is not a duration"),
      (
        "grace: {route: 1e3}",
        "connd.yaml:1: grace.route: '1e3' is not a duration; expected 500ms, 5s"
      ),
      (
        "grace: {route: 1441m}",
        "connd.yaml:1: grace.route: '1441m' is too long; the maximum is 24h"
      ),
      ("grace: {route: 2d}", "connd.yaml:1: grace.route: '2d' is too long; the maximum is 24h"),
      ("limits: {streems: 1}", "connd.yaml:1: limits.streems: unknown key"),
      ("limits:\n  streams: 0", "connd.yaml:2: limits.streams: must be a whole number from 1 to"),
      ("limits: {flows: 1.5}", "connd.yaml:1: limits.flows: must be a whole number"),
      ("limits: {flows: 0x10}", "connd.yaml:1: limits.flows: must be a whole number"),
      ("limits: {messageSize: 4kB}", "connd.yaml:1: limits.messageSize: '4kB' is not a size"),
      ("limits: {messageSize: 1GiB}", "connd.yaml:1: limits.messageSize: '1GiB' is not a size"),
      (
        "limits: {messageSize: 9223372036854775807KiB}",
        "connd.yaml:1: limits.messageSize: '9223372036854775807KiB' is not a size"
      ),
      (
        "limits: {messageSize: -9223372036854775808KiB}",
        "connd.yaml:1: limits.messageSize: '-9223372036854775808KiB' is not a size"
      ),
      ("limits: {messageSize: -1}", "connd.yaml:1: limits.messageSize: '-1' is not a size"),
      ("- a\n- b", "connd.yaml:1: must be a mapping"),
      ("prefer: ipv4\nprefer: ipv6", "prefer: duplicate key"),
      ("? [a, b]\n: c", "connd.yaml:1: a key must be a word"),
      ("? [a]\n: c\n? [a]\n: d", "connd.yaml:1: a key must be a word"),
      ("? [a]\n: c\n? [a]\n: d", "connd.yaml:3: a key must be a word"),
      ("limits: {flows: 1, flows: 2}", "connd.yaml:1: limits.flows: duplicate key"),
      ("links:\n\t- {match: a}", "connd.yaml:2: is indented with a tab"),
      ("prefer: ipv4\n---\nprefer: ipv6", "connd.yaml:2: only one document is allowed"),
      ("prefer: !!str ipv4", "connd.yaml:1: tags (!) are not supported"),
      ("links: &all []", "connd.yaml:1: anchors (&) are not supported"),
      (String(repeating: "[", count: 100_000), "connd.yaml:1: is nested too deeply"),
      ("links:\n- {[a]: b}", "connd.yaml:2: links[0]: a key must be a word"),
      ("prefer: &a ipv4\n*a : b", "connd.yaml:1: anchors (&) are not supported"),
      ("prefer: ipv4\n*a : b", "connd.yaml:2: quote patterns that begin"),
      ("a: b\n  c: [", "connd.yaml:2:"),
      ("fe80:\n\0:..:8011%0", "connd.yaml:2: control characters are not allowed"),
      ("prefer: ipv4\nsocket: /\u{600}\u{FFFF}", "connd.yaml:2: control characters"),
      ("links:\n  - {match: *ppp}", "connd.yaml:2: quote patterns that begin with *"),
      ("links:\n  - match: *", "connd.yaml:2: quote patterns that begin with *"),
      ("links:\n  - match: *ppp*", "connd.yaml:2: quote patterns that begin with *"),
    ])
  func errors(text: String, message: String) {
    switch Self.parse(text) {
    case .success(let configuration): Issue.record("was accepted as \(configuration)")
    case .failure(let error): #expect(error.description.contains(message))
    }
  }

  @Test("all mistakes are reported together, in the order of the file")
  func allMistakes() throws {
    let text = """
      prefer: ipv5
      links:
        - {match: a, medium: wire, expensive: 3}
        - {medium: wifi}
      limits: {flows: 0, streems: 1}
      grace: {wifi: never}
      prefer: ipv4
      """
    guard case .failure(let error) = Self.parse(text) else {
      Issue.record("was accepted")
      return
    }
    #expect(
      error.mistakes.map { "\($0.line ?? 0) \($0.key ?? "")" } == [
        "1 prefer", "3 links[0].medium", "3 links[0].expensive", "4 links[1]", "5 limits.flows",
        "5 limits.streems", "6 grace.wifi", "7 prefer",
      ])
  }

  @Test("T1 a configuration with flaps → it loads with a warning")
  func flaps() throws {
    let configuration = try Self.parse("prefer: ipv6\nflaps: {losses: 5, hold: soon}").get()
    #expect(configuration.prefer == .ipv6)
    #expect(configuration.source.warnings.count == 1)
    #expect(
      configuration.source.warnings.first?.contains("connd.yaml:2: flaps: has no effect") == true)
    #expect(try Self.parse("prefer: ipv6").get().source.warnings == [])
  }

  @Test(
    "an entry of links that does nothing is valid, with a warning",
    arguments: [
      ("links: [{match: usb0}]", "sets nothing, and later entries do not apply to its links"),
      (
        "links: [{match: usb0, medium: wifi}, {match: usb0, medium: wired}]",
        "has no effect: an earlier entry has the same match, and the first one wins"
      ),
      (
        "links: [{match: 'wlan[', medium: wifi}]",
        "matches only a link with “[” in its name: the bracket is not closed"
      ),
    ])
  func idleLinks(text: String, warning: String) throws {
    let warnings = try Self.parse(text).get().source.warnings
    #expect(warnings.count == 1 && warnings.first?.hasSuffix(warning) == true, "\(warnings)")
    let useful = "links: [{match: 'wlan[0-9]', medium: wifi}, {match: usb0, expensive: false}]"
    #expect(try Self.parse(useful).get().source.warnings == [])
  }

  @Test("a log level in the file → the option is named")
  func logLevel() throws {
    #expect("\(Self.parse("log-level: debug"))".contains("use the option --log-level of connd"))
  }

  @Test("keys that only take effect at the next start are named")
  func nextStart() throws {
    let running = try Self.parse("limits: {messageSize: 8KiB}").get()
    let same = try Self.parse("limits: {messageSize: 8192, flows: 7}\nprefer: ipv6").get()
    #expect(same.keysForNextStart(of: running) == [])
    let other = try Self.parse("socket: /x\nlimits: {streamsPerConnection: 9}").get()
    #expect(
      other.keysForNextStart(of: running)
        == ["socket", "limits.streamsPerConnection", "limits.messageSize"])
  }

  @Test("a missing file is an error only if it was named explicitly")
  func absent() throws {
    let file = "/nonexistent/connd.yaml"
    #expect(try Configuration.read(file: file, isOptional: true) == Configuration())
    #expect(throws: ConfigurationError.self) {
      try Configuration.read(file: file, isOptional: false)
    }
  }

  @Test("--check-config on a missing file → says that the defaults hold")
  func verdict() {
    #expect(
      ConndCommand.verdict(onFile: "/nonexistent/connd.yaml")
        == "/nonexistent/connd.yaml: does not exist; the defaults apply")
    #expect(ConndCommand.verdict(onFile: "/dev/null") == "/dev/null: valid")
  }

  @Test("a user's own file replaces the machine's, except for root and if it does not exist")
  func ownFile() {
    func file(
      _ variables: [String: String], uid: UInt32 = 1000, exists: Set<String> = []
    ) -> String {
      Configuration.defaultFile(of: uid) {
        variables[$0]
      } exists: {
        exists.contains($0)
      }
    }
    let (own, other) = ("/home/u/.config/connd/connd.yaml", "/x/connd/connd.yaml")
    let all: Set = [own, other]
    #expect(file(["HOME": "/home/u"], exists: all) == own)
    #expect(file(["HOME": "/home/u", "XDG_CONFIG_HOME": "/x"], exists: all) == other)
    #expect(file(["HOME": "/home/u", "XDG_CONFIG_HOME": "x"], exists: all) == own)
    let system = "/etc/connd/connd.yaml"
    #expect(file(["HOME": "/home/u"]) == system)
    #expect(file([:], exists: all) == system)
    #expect(file(["HOME": "/home/u"], uid: 0, exists: all) == system)
  }

  @Test("only --check-config accepts a file argument")
  func fileToCheck() throws {
    #expect(try ConndCommand.parse(["--check-config", "/x"]).file == "/x")
    #expect(try ConndCommand.parse(["--check-config"]).file == nil)
    for arguments in [["/x"], ["--check-config", "--config", "/y", "/x"]] {
      #expect(throws: (any Error).self) { try ConndCommand.parse(arguments) }
    }
  }

  @Test("the installed file leaves every default unchanged")
  func installed() throws {
    let file = Checkout.path("config/connd.yaml")
    #expect(try Configuration.read(file: file, isOptional: false) == Configuration())
  }

  @Test("the default limits admit a thousand subscribers of one user")
  func defaultLimits() {
    let limits = Limits()
    #expect(limits.connectionsPerUser > 1000 && limits.streamsPerConnection > 1000)
    // Another user still finds room.
    #expect(limits.connections > limits.connectionsPerUser)
    #expect(limits.streams > limits.streamsPerUser && limits.streamsPerUser > 1000)
    #expect(limits.flows > limits.flowsPerUser && limits.flowsPerUser > limits.flowsPerStream)
  }

  @Test("there are several default probes for each family, and each is global")
  func probes() {
    let probes = DefaultDestination.spread
    #expect(probes.ipv4.count == 3 && probes.ipv6.count == 3)
    for probe in probes.all {
      #expect(!probe.isLoopback && !probe.isLinkLocal && !probe.isUnspecified)
    }
  }
}
