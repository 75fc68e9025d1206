import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import Synchronization
import Testing

@testable import ConnctlCommands

@Suite("Override commands")
struct CostTests {
  /// The request that a command sends.
  private func said(_ arguments: String...) async throws -> Connectivity_V1_SetCostRequest? {
    let connd = StubConnd()
    let status = try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      return try await connd.serving(socket) {
        await runConnctl(["--socket", socket] + arguments, on: Screen().console)
      }
    }
    #expect(status == 0, "\(arguments)")
    return connd.said.withLock { $0.last }
  }

  @Test("a link or a network is named, and on, off or auto changes it")
  func targets() async throws {
    var wish = Connectivity_V1_SetCostRequest()
    wish.link = "wlan0"
    wish.constrained = .on
    #expect(try await self.said("constrain", "wlan0", "on") == wish)
    #expect(try await self.said("constrain", "--link", "wlan0", "on") == wish)
    wish.constrained = .auto
    #expect(try await self.said("constrain", "wlan0", "auto") == wish)
    wish.clearConstrained()
    wish.network = "Free Wi-Fi"
    wish.expensive = .off
    #expect(try await self.said("metered", "--network", "Free Wi-Fi", "off") == wish)
    wish.expensive = .on
    wish.duration.seconds = 7200
    #expect(
      try await self.said("expensive", "--for", "2h", "--network", "Free Wi-Fi", "on") == wish)
    wish.whenLeft = true
    #expect(
      try await self.said("expensive", "--network", "Free Wi-Fi", "--until", "left", "on") == wish)
    wish.atBoot = true
    #expect(
      try await self.said("expensive", "--network", "Free Wi-Fi", "--until", "boot", "on") == wish)
  }

  @Test("without a name, the current network is marked, and named in the output")
  func here() async throws {
    var wish = Connectivity_V1_SetCostRequest()
    wish.network = "00000000000000ff"
    wish.constrained = .on
    #expect(try await self.said("constrain", "on") == wish)
    wish.constrained = .off
    #expect(try await self.said("constrain", "off") == wish)
    wish.whenLeft = true
    #expect(try await self.said("constrain", "off", "--until", "left") == wish)
    let told = try await connctl("constrain", "on")
    #expect(
      told.screen.outputLines == [
        "this network (Free ?[31mWi-Fi, wlan0) is constrained from now on; undo: connctl constrain auto"
      ])
    #expect(told.screen.errors == "")
  }

  @Test("an override → what was done, how long it lasts, and how to undo it")
  func success() async throws {
    for (arguments, line) in [
      (
        ["metered", "wlan0", "on", "--for", "2h"],
        "the link wlan0 is metered for 2h; undo: connctl metered wlan0 auto"
      ),
      (
        ["constrain", "wlan0", "off", "--until", "boot"],
        "the link wlan0 is not constrained until the machine reboots; undo: connctl constrain wlan0 auto"
      ),
      (["metered", "wlan0", "auto"], "connd decides again whether the link wlan0 is metered"),
      (
        ["metered", "--network", "Uncle's Phone", "on"],
        #"the network “Uncle's Phone” is metered from now on; undo: connctl metered --network 'Uncle'\''s Phone' auto"#
      ),
    ] {
      let said = try await withDirectory { directory in
        let screen = Screen()
        let socket = "\(directory)/connd.sock"
        try await StubConnd().serving(socket) {
          #expect(await runConnctl(arguments + ["--socket", socket], on: screen.console) == 0)
        }
        return screen.outputLines
      }
      #expect(said == [line])
    }
  }

  @Test("a link or network that is not there → a warning that the override waits for it")
  func absent() async throws {
    let network = try await connctl("constrain", "--network", "Home", "on")
    #expect(network.status == 0)
    #expect(network.screen.errors.contains("the machine is not on “Home” now"))
    let link = try await connctl("constrain", "--link", "nope0", "on")
    #expect(link.status == 0)
    #expect(link.screen.errors.contains("the link “nope0” does not exist"))
    #expect(link.screen.output.hasSuffix("; undo: connctl constrain --link nope0 auto\n"))
    let auto = try await connctl("constrain", "--link", "nope0", "auto")
    #expect(auto.screen.errors == "")
  }

  @Test("without on, off or auto nothing changes: what applies now is shown")
  func shown() async throws {
    let connd = StubConnd()
    for (arguments, line) in [
      (["metered"], "vlan10 is metered"),
      (["metered", "wlan0"], "wlan0 is metered"),
      (
        ["constrain", "wlan0"], "wlan0 is not constrained: programs need not save data"
      ),
    ] {
      let result = try await connctl(arguments, stub: connd)
      #expect(result.status == 0 && result.screen.outputLines == [line], "\(result.screen.errors)")
    }
    #expect(connd.said.withLock { $0.isEmpty })
    for (state, words) in [
      (Metering.yes, "is metered"), (.no, "is not metered"),
      (.guessYes, "is probably metered"), (.guessNo, "is probably not metered"),
    ] {
      #expect(
        CostEvidence(state, .networkManager).sentence(about: "wlan0")
          == "wlan0 \(words): NetworkManager says so")
    }
    #expect(
      CostEvidence(.unknown, .none).sentence(about: "eth0")
        == "it is unknown whether eth0 is metered: nothing says so")
    let network = try await connctl("metered", "--network", "Home")
    #expect(network.status == 64 && network.screen.errors.contains("add on, off or auto"))
  }

  @Test(
    "a word that is no link changes nothing: 64, with a similar word and --link",
    arguments: [
      ("status", nil), ("of", "off"), ("wlan1", "wlan0"), ("auto0", "auto"), ("$(id)", nil),
    ])
  func unknownLink(word: String, meant: String?) async throws {
    let connd = StubConnd()
    for arguments in [[word], [word, "on"]] {
      let result = try await connctl(["constrain"] + arguments, stub: connd)
      #expect(result.status == 64 && result.screen.output == "")
      let hint = meant.map { ". Did you mean '\($0)'?" } ?? "."
      let place = word == "$(id)" ? "'$(id)'" : word
      #expect(
        result.screen.errors.contains(
          "“\(word)” is not a link, and not on, off or auto\(hint) For a link that does not exist yet: --link \(place)"
        ), "\(result.screen.errors)")
    }
    #expect(connd.said.withLock { $0.isEmpty })
  }

  @Test("an override that connd cannot save → a warning that it lasts until connd exits")
  func notKept() async throws {
    let said = try await connctl("constrain", "--link", "sealed0", "on")
    #expect(said.status == 0 && said.screen.errors.contains("until connd exits"))
    let forgotten = try await connctl("forget", "Sealed")
    #expect(forgotten.status == 0 && forgotten.screen.errors.contains("the override returns"))
  }

  @Test(
    "an invalid combination is not sent: 64",
    arguments: [
      ["constrain", "off", "wlan0"], ["constrain", "wlan0", "maybe"],
      ["constrain", "wlan0", "on", "off"],
      ["constrain", "--network", "x", "wlan0", "on"],
      ["metered", "wlan0", "on", "--until", "left"],
      ["metered", "wlan0", "on", "--for", "1h", "--until", "boot"],
      ["metered", "wlan0", "on", "--for", "0s"], ["constrain", "wlan0", "on", "--until", "noon"],
      ["metered", "wlan0", "--for", "1h"], ["metered", "--link", "a", "--network", "b", "on"],
      ["forget"], ["metered", "no"], ["constrain", "True"], ["metered", "yes", "on"],
    ])
  func nonsense(arguments: [String]) async throws {
    let screen = Screen()
    #expect(await runConnctl(arguments, on: screen.console) == 64, "\(screen.errors)")
  }

  @Test("an unauthorized user: 77; a configuration entry that takes precedence is named")
  func refused() async throws {
    let connd = StubConnd(error: RPCError(code: .permissionDenied, message: "only root may"))
    for arguments in [["constrain", "wlan0", "on"], ["forget", "Home"]] {
      let screen = Screen()
      let status = try await withDirectory { directory in
        let socket = "\(directory)/connd.sock"
        return try await connd.serving(socket) {
          await runConnctl(["--socket", socket] + arguments, on: screen.console)
        }
      }
      #expect(status == 77)
      #expect(screen.errors.contains("only root may"))
    }
    let overruled = try await connctl("constrain", "--link", "eth0", "on")
    #expect(overruled.status == 0)
    #expect(overruled.screen.errors.contains("the configuration's rule for “eth*”"))
    #expect(overruled.screen.output == "")
  }

  @Test("networks: JSON for programs, and no control characters in the text")
  func networks() async throws {
    let json = try await connctl("networks", "--json")
    let lines = json.screen.outputLines
    let here =
      #"{"name": "Free \u001b[31mWi-Fi", "identity": "00000000000000ff", "link": null, "medium": "wifi", "#
      + #""constrained": true, "expensive": null, "current": true, "user": 1000, "until": null, "#
      + #""constrainedUntil": null, "expensiveUntil": null}"#
    let away =
      #"{"name": null, "identity": "0123456789abcdef", "link": null, "medium": "unknown", "#
      + #""constrained": null, "expensive": false, "current": false, "user": 0, "#
      + #""until": "2026-11-21T01:25:00.123456Z", "constrainedUntil": null, "#
      + #""expensiveUntil": "2026-11-21T01:25:00.123456Z"}"#
    let cable =
      #"{"name": null, "identity": null, "link": "eth0", "medium": "unknown", "constrained": false, "#
      + #""expensive": true, "current": false, "user": 1000, "until": null, "constrainedUntil": null, "#
      + #""expensiveUntil": null}"#
    #expect(lines == [here, away, cable])
    let text = try await connctl("networks")
    #expect(!text.screen.output.contains("\u{1b}"))
    #expect(text.screen.outputLines.first?.hasPrefix("NAME ") == true)
    #expect(text.screen.outputLines.count { !$0.hasPrefix(" ") } == 4)
    #expect(text.screen.outputLines.dropFirst().first?.hasSuffix("here, constrained") == true)
  }

  @Test("networks: one row for the networks of one name, even while the machine is on one of them")
  func twins() {
    var (open, protected) = (Connectivity_V1_Network.away, Connectivity_V1_Network.away)
    (open.name, protected.name) = ("Home", "Home")
    protected.identity = "fedcba9876543210"
    let style = Style.plain(width: 200)
    let away = style.networks([open, protected, .away])
    #expect(away.count == 3)
    #expect(away[1].hasPrefix("Home  open or protected  -       not metered"))
    #expect(away[2].hasPrefix("-     0123456789abcdef "))
    var here = protected
    (here.current, here.medium) = (true, .wifi)
    let lines = style.networks([here, open])
    #expect(lines.count == 2)
    #expect(lines.last?.hasPrefix("Home  fedcba9876543210  wifi    here, not metered") == true)
    open.expensive = .on
    #expect(style.networks([here, open]).count == 3)
  }

  @Test("forget: 1 without an override")
  func forget() async throws {
    #expect(try await connctl("forget", "Home").status == 0)
    let nothing = try await connctl("forget", "Elsewhere")
    #expect(nothing.status == 1)
    #expect(nothing.screen.errors.contains("no override for “Elsewhere”"))
  }
}

extension Connectivity_V1_Network {
  static let here = {
    var network = Self()
    network.name = "Free \u{1b}[31mWi-Fi"
    network.identity = "00000000000000ff"
    network.medium = .wifi
    network.constrained = .on
    network.expensive = .auto
    network.current = true
    network.user = 1000
    return network
  }()

  static let away = {
    var network = Self()
    network.identity = "0123456789abcdef"
    network.medium = .unknown
    network.constrained = .auto
    network.expensive = .off
    network.user = 0
    network.endTime = .init(WallTime.sample)
    network.expensiveEndTime = .init(WallTime.sample)
    return network
  }()

  static let cable = {
    var network = Self()
    network.link = "eth0"
    network.medium = .unknown
    network.constrained = .off
    network.expensive = .on
    network.user = 1000
    return network
  }()
}
