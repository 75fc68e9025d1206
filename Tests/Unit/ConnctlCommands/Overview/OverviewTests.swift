import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

@Suite("connctl top")
struct OverviewTests {
  @Test("a screen of 80 by 24")
  func usual() throws {
    try expectPicture(Overview.sample.picture(80, 24), "top-80x24")
  }

  @Test("a screen of 40 by 12, as on a phone")
  func small() throws {
    try expectPicture(Overview.sample.picture(40, 12), "top-40x12")
  }

  @Test("a screen of 132 by 50")
  func large() throws {
    try expectPicture(Overview.sample.picture(132, 50), "top-132x50")
  }

  @Test("a screen of 80 by 24 in ASCII")
  func ascii() throws {
    let lines = Overview.sample.picture(80, 24, .ascii)
    try expectPicture(lines, "top-ascii")
    #expect(lines.joined().unicodeScalars.allSatisfy { $0.isASCII })
  }

  @Test("a screen of 160 by 24: changes on the left, links and clients on the right")
  func wide() throws {
    try expectPicture(Overview.sample.picture(160, 24), "top-160x24")
    // Nothing follows a right-to-left name that it could reverse.
    var overview = Overview.sample
    overview.links[0].wireless.ssid = "שלום"
    let rows = overview.picture(160, 24)
    #expect(rows.contains { $0.hasSuffix("metered, \"שלום\"") })
  }

  @Test("screens of 120 by 40 and 200 by 50", arguments: [(120, 40), (200, 50)])
  func usualWindows(columns: Int, rows: Int) throws {
    let lines = Overview.sample.picture(columns, rows)
    #expect(lines.count == rows)
    try expectPicture(lines, "top-\(columns)x\(rows)")
  }

  @Test("? explains the keys")
  func keys() {
    for size in [Frame.Size(columns: 80, rows: 24), Frame.Size(columns: 40, rows: 12)] {
      let frame = Overview.sample.frame(
        size, .unicode, .plain(width: size.columns), now: .sample,
        options: ViewOptions(showsKeys: true))
      let lines = frame.lines.map { $0.text(color: false) }
      #expect(lines.suffix(7).first == "q, Ctrl-C  quit")
      #expect(lines.last == "?          hide this help")
      #expect(lines.count == size.rows)
    }
  }

  @Test("without rates their columns are left out")
  func elsewhere() {
    var overview = Overview.sample
    overview.isElsewhere = true
    #expect(!overview.picture(80, 24).contains { $0.contains(" OUT") })
  }

  @Test("a machine without IPv6 has nothing red")
  func unusedFamily() {
    let overview = Overview(.sample)
    let frame = overview.frame(
      Frame.Size(columns: 80, rows: 24), .unicode, .plain(), now: .sample)
    #expect(frame.lines.map { $0.text(color: false) }.contains("  ipv6  none"))
    #expect(!frame.lines.contains { $0.cells.contains { $0.ink == .bad } })
  }

  @Test("any size works, and no line is longer than the terminal's")
  func anySize() {
    for columns in [1, 2, 5, 10, 20, 39, 41, 60, 79, 200] {
      for rows in [1, 2, 3, 5, 8, 13, 17, 25, 100] {
        for glyphs in [Glyphs.unicode, .ascii] {
          let frame = Overview.sample.frame(
            Frame.Size(columns: columns, rows: rows), glyphs, .plain(width: columns),
            now: .sample)
          #expect(frame.lines.count <= rows)
          #expect(frame.lines.allSatisfy { $0.width <= columns })
          #expect(FakeTerminal.showing(frame).unknown == [])
        }
      }
    }
  }

  @Test("without a row limit, the picture has everything once")
  func whole() async throws {
    let shown = try await connctl("top")
    #expect(shown.status == 0)
    let lines = shown.screen.output.split(separator: "\n", omittingEmptySubsequences: false)
    try expectPicture(lines.dropLast().map(String.init), "top-once")
    #expect(!shown.screen.output.contains("\u{1B}"))
  }

  @Test("a connd that does not list its clients is shown without them")
  func old() async throws {
    let shown = try await connctl("top", stub: StubConnd(isOld: true))
    #expect(shown.status == 0)
    #expect(shown.screen.output.contains("LINK"))
    #expect(!shown.screen.output.contains("CLIENT"))
  }

  @Test("without connd the error is that of every command")
  func absent() async throws {
    let absent = try await connctl("top", stub: nil)
    #expect(absent.status == 69)
    #expect(absent.screen.errors.hasPrefix("connctl: connd is not running: "))
  }

  @Test("hostile names neither affect the terminal nor shift a column", arguments: [80, 132])
  func hostile(columns: Int) {
    let names = [
      "a\u{1B}[2Jb", "\u{1B}]0;owned\u{7}", "\u{202E}evil", "a\u{301}\u{301}\u{301}\u{301}",
      "日本日本日", "שלום", "🇩🇪👍🏽", "\u{9B}31m", "x\u{200D}y", "\n\n\n",
    ]
    for name in names {
      var overview = Overview.sample
      overview.links[0].wireless.ssid = name
      overview.links[1].name = name
      overview.links[2].kind = name
      overview.snapshot.status.ipv4.chain[0].name = name
      overview.processNames[4_000_002] = name
      overview.clients?[1].path.destination = name
      overview.take(.disconnected(.failed(name)))
      let frame = overview.frame(
        Frame.Size(columns: columns, rows: 40), .unicode, .plain(width: columns, color: true),
        now: .sample)
      let terminal = FakeTerminal.showing(frame)
      #expect(terminal.unknown == [], "\(name)")
      // The rate is below its heading, in terminal columns.
      func end(of text: String, in start: String) -> Int? {
        let row = terminal.rows.first { $0.joined().hasPrefix(start) }
        let place = row?.indices.last { row?[$0...].joined().hasPrefix(text) == true }
        return place.map { $0 + text.count }
      }
      #expect(end(of: "1.2 MB/s", in: "wlan0") != nil, "\(name)")
      #expect(end(of: "1.2 MB/s", in: "wlan0") == end(of: "IN", in: "LINK"), "\(name)")
      // No text follows letters that would reverse the line.
      for row in terminal.rows.map({ $0.joined() }) {
        guard let place = row.unicodeScalars.firstIndex(where: \.isRightToLeft) else { continue }
        #expect(
          row.unicodeScalars[place...].allSatisfy {
            $0.isRightToLeft || "\" ".unicodeScalars.contains($0)
          })
      }
    }
  }

  // MARK: - Parts

  @Test("rows are divided so that each section has its share")
  func shares() {
    #expect(Overview.shares(of: nil, among: [3, 9]) == [3, 9])
    #expect(Overview.shares(of: 20, among: [3, 9]) == [3, 9])
    #expect(Overview.shares(of: 9, among: [10, 2, 10]) == [3, 2, 4])
    #expect(Overview.shares(of: 0, among: [10, 2]) == [0, 0])
    #expect(Overview.shares(of: 5, among: []) == [])
  }

  private static func chain(_ path: KernelPath, _ width: Int = 80, down: String? = nil) -> String {
    var link = Connectivity_V1_Link.stacked(down ?? "eth0")
    link.state = down == nil ? .up : .noCarrier
    return PathDiagram(path, links: [link]).line(.unicode, width: width, ink: .good).text(
      color: false)
  }

  @Test("a family's path is drawn link by link, with its interruption")
  func chains() {
    #expect(Self.chain(.wlan) == "host ─ wlan0 ─ 192.0.2.1 ─ internet")
    #expect(
      Self.chain(.stack) == "host ─ vlan10 ─ bond0 ─ eth0 ─ fe80::1234:5678:9abc:def0 ─ internet")
    var stack = KernelPath.stack
    (stack.status, stack.reason) = (.requiresConnection, .noCarrier)
    stack.gateway = nil
    #expect(Self.chain(stack, down: "bond0") == "host ─ vlan10 ─ bond0 ╳ eth0 ─ internet")
    #expect(Self.chain(stack) == "host ─ vlan10 ─ bond0 ─ eth0 ╳ internet")
    stack.reason = .noSourceAddress
    #expect(Self.chain(stack) == "host ╳ vlan10 ─ bond0 ─ eth0 ─ internet")
    #expect(Self.chain(.unsatisfied(.noRoute)) == "host ╳ internet")
    #expect(Self.chain(.unknown) == "host ╳ internet")
  }

  @Test("with little room the middle of a stack is left out, and the gap stays")
  func elided() {
    var stack = KernelPath.stack
    stack.gateway = IPAddress("fe80::1")
    #expect(Self.chain(stack, 45) == "host ─ vlan10 ─ … ─ eth0 ─ fe80::1 ─ internet")
    #expect(Self.chain(stack, 40) == "host ─ vlan10 ─ … ─ fe80::1 ─ internet")
    #expect(Self.chain(stack, 33) == "vlan10 ─ … ─ fe80::1 ─ internet")
    (stack.status, stack.reason) = (.requiresConnection, .noCarrier)
    #expect(Self.chain(stack, 40) == "host ─ vlan10 ─ … ╳ fe80::1 ─ internet")
    #expect(Self.chain(stack, 40, down: "vlan10") == "host ─ vlan10 ╳ … ─ fe80::1 ─ internet")
  }

  @Test(
    "a signal has bars of eleven decibels each",
    arguments: [
      (-30, "▂▄▆█ -30"), (-55, "▂▄▆█ -55"), (-56, "▂▄▆· -56"), (-77, "▂▄·· -77"),
      (-88, "▂··· -88"), (-89, "···· -89"), (.min, "···· -2147483648"),
    ] as [(Int32, String)])
  func signal(dBm: Int32, words: String) {
    #expect(Signal.strength(dBm).text(.unicode) == words)
  }

  @Test(
    "a modem's signal has bars of a fifth each",
    arguments: [
      (100, "▂▄▆█ 100%"), (80, "▂▄▆█ 80%"), (79, "▂▄▆· 79%"), (20, "▂··· 20%"), (19, "···· 19%"),
      (0, "···· 0%"), (.max, "▂▄▆█ 4294967295%"),
    ] as [(UInt32, String)])
  func modemSignal(percent: UInt32, words: String) {
    #expect(Signal.quality(percent).text(.unicode) == words)
  }

  @Test("connd's events update the picture, and each change is noted once")
  func events() {
    var overview = Overview(.sample)
    overview.take(.change(.transition(.sample)))
    overview.take(.change(.transition(.sample)))
    #expect(overview.snapshot.status == .offline)
    #expect(overview.changes.count == 1)
    overview.take(.disconnected(.notAvailable("it is gone")))
    #expect(overview.remark == "connd went away (it is gone); waiting for it")
    overview.take(.resumed(after: 18))
    #expect(overview.remark == nil)
    overview.take(.gap(.sample(40)))
    #expect(overview.snapshot.generation == 40)
    for generation in 50..<200 {
      var change = ConnectivityChange.PathChange.sample
      change.snapshot.generation = UInt64(generation)
      overview.take(.change(.path(change)))
    }
    #expect(overview.changes.count == 64)
    #expect(overview.changes.last?.generation == 199)
  }
}
