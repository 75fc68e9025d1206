import Connectivity
import Glibc
import Testing

@testable import ConnctlCommands

/// Output to a terminal, and to something else.
@Suite("Terminals")
struct TerminalTests {
  private let style = Style.plain()

  @Test(
    "lines are as wide as the terminal, at least 40 columns; 80 if the width is unknown",
    arguments: [(100, 100), (20, 40), (0, 80)] as [(UInt16, Int)])
  func terminalWidth(columns: UInt16, expected: Int) throws {
    let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
    try #require(terminal >= 0)
    defer { close(terminal) }
    var size = winsize()
    size.ws_col = columns
    try #require(ioctl(terminal, UInt(TIOCSWINSZ), &size) == 0)
    #expect(Console.terminalWidth(terminal) == expected)
  }

  @Test("an output that is not a terminal has no width")
  func noTerminal() throws {
    let file = open("/dev/null", O_WRONLY | O_CLOEXEC)
    try #require(file >= 0)
    defer { close(file) }
    #expect(Console.terminalWidth(file) == nil)
  }

  @Test("the pager is PAGER, or less if it exists")
  func pager() {
    func command(_ variables: [String: String], exists: Bool = true) -> [String]? {
      Pager.command({ (["TERM": "xterm"].merging(variables) { $1 })[$0] }, exists: { _ in exists })
    }
    #expect(command([:]) == ["less"])
    #expect(command([:], exists: false) == nil)
    #expect(command(["PAGER": "most -s"]) == ["sh", "-c", "most -s"])
    #expect(command(["PAGER": ""]) == nil)
    #expect(command(["PAGER": "cat"]) == nil)
    #expect(command(["TERM": "dumb"]) == nil)
  }

  @Test("a link's name cannot move the cursor")
  func controlCharacters() {
    var path = KernelPath.wlan
    path.chain = [KernelPath.Link(index: 1, name: "a\u{1B}[2Jb\u{9B}")]
    let status = ConnectivityStatus(ipv4: path, ipv6: .unknown, preferred: .ipv4)
    let lines = self.style.status(.sample(1, status), now: .sample)
    #expect(lines.first?.hasPrefix("wifi via a?[2Jb? ") == true)
    let scalars = lines.joined().unicodeScalars
    #expect(!scalars.contains { $0.value < 0x20 || (0x7F..<0xA0).contains($0.value) })
  }

  @Test("a link's name cannot reverse text, and a server's text cannot move the cursor")
  func deceptiveText() {
    var path = KernelPath.wlan
    path.chain = [KernelPath.Link(index: 1, name: "a\u{202E}b\u{2066}")]
    let lines = self.style.status(
      .sample(1, ConnectivityStatus(ipv4: path, ipv6: .unknown, preferred: .ipv4)), now: .sample)
    #expect(lines.first?.hasPrefix("wifi via a?b? ") == true)
    for screen in [Screen().console, Screen().console(errorWidth: 40)] {
      let told = Screen()
      var console = screen
      console.complain = told.console.complain
      console.remark("refused: \u{1B}]0;x\u{7} \u{9B}2J \u{202E}\u{200F}")
      #expect(told.errors == "connctl: refused: ?]0;x? ?2J ??\n")
    }
  }

  @Test("an SSID with a line break → a remark about it is one line")
  func forgedLine() {
    let screen = Screen()
    screen.console.remark("it is of “Home\nconnctl: connd is gone\u{2028}”")
    #expect(screen.errors == "connctl: it is of “Home?connctl: connd is gone?”\n")
  }

  @Test("colour does not shift columns")
  func color() {
    let lines = Style.plain(color: true).status(.sample, now: .sample)
    #expect(lines.first == "\u{1B}[32mwifi via wlan0\u{1B}[0m (since 0 s)")
    #expect(
      lines.dropFirst().first
        == "  ipv4  \u{1B}[32msatisfied\u{1B}[0m  wlan0  from 192.0.2.7 via 192.0.2.1")
  }

  @Test(
    "colour only on a terminal, never with NO_COLOR",
    arguments: [
      (true, [:], true), (false, [:], false), (true, ["NO_COLOR": "1"], false),
      (true, ["NO_COLOR": ""], true), (true, ["TERM": "dumb"], false),
      (true, ["TERM": "xterm"], true),
    ] as [(Bool, [String: String], Bool)])
  func colorChoice(isTerminal: Bool, environment: [String: String], expected: Bool) {
    #expect(
      Console.allowsColor(isTerminal: isTerminal, environment: { environment[$0] }) == expected)
  }
}
