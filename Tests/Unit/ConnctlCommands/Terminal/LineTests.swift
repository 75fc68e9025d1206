import Testing

@testable import ConnctlCommands

/// Names must not affect a line.
@Suite("Picture lines")
struct LineTests {
  @Test(
    "a character's width is that of a terminal",
    arguments: [
      ("eth0", "eth0", 4), ("日本", "日本", 4), ("e\u{301}x", "e\u{301}x", 2),
      ("한국", "한국", 4), ("ก\u{E34}\u{E48}", "ก\u{E34}\u{E48}", 1), ("😀", "😀", 2), ("─╳", "─╳", 2),
      ("\u{3000}x", "  x", 3), ("ﾊﾛｰ", "ﾊﾛｰ", 3), ("Ａ", "Ａ", 2),
    ])
  func widths(text: String, shown: String, width: Int) {
    let line = text.line()
    #expect(line.text(color: false) == shown)
    #expect(line.width == width)
  }

  @Test(
    "control characters, and those that terminals disagree on, become question marks",
    arguments: [
      ("a\u{1B}[2Jb", "a?[2Jb"), ("\u{9B}2J", "?2J"), ("\u{202E}x", "?x"), ("x\u{200D}y", "x?y"),
      ("a\u{7}\n\r\tb", "a????b"), ("🇩🇪", "??"), ("👍🏽", "👍?"), ("\u{E000}", "?"), ("\u{AD}", "?"),
      ("☺\u{FE0F}", "☺"), ("\u{301}a", "a"), ("שלום", "????"), ("\u{10FFFF}", "?"),
      ("a" + String(repeating: "\u{301}", count: 50), "a\u{301}\u{301}"),
      ("\u{1160}\u{11A8}", "??"), ("\u{0}", "?"),
    ])
  func hostile(text: String, shown: String) {
    let line = text.line()
    #expect(line.text(color: false) == shown)
    #expect(line.width == shown.line().width)
  }

  @Test("in ASCII every other character becomes a question mark, except connctl's own arrow")
  func ascii() {
    #expect("wired → none é日".line(.ascii).text(color: false) == "wired -> none ??")
  }

  @Test("a right-to-left name is shown only if no text follows it")
  func rightToLeft() {
    #expect("שלום".line(rightToLeft: true).text(color: false) == "שלום")
  }

  @Test("cut text ends with an ellipsis, and no wide character is split")
  func fit() {
    #expect("interface".line().fitted(6).text(color: false) == "inter…")
    #expect("interface".line(.ascii).fitted(6).text(color: false) == "int...")
    #expect("日本語".line().fitted(4).text(color: false) == "日…")
    #expect("日本語".line().fitted(4).width <= 4)
    #expect("abc".line().fitted(0).width == 0)
    #expect("abc".line(.ascii).fitted(2).width == 2)
    #expect("abc".line().fitted(3).text(color: false) == "abc")
  }

  @Test(
    "the locale decides whether only ASCII is used",
    arguments: [
      ([:], true), (["LANG": "C"], true), (["LANG": "de_DE.UTF-8"], false),
      (["LANG": "C.utf8"], false), (["LANG": "de_DE.UTF-8@euro"], false),
      (["LANG": "de_DE.UTF-8", "LC_ALL": "C"], true),
      (["LANG": "C", "LC_CTYPE": "C.UTF-8"], false),
      (["LANG": "C.UTF-8", "LC_ALL": ""], false), (["LANG": "de_DE.ISO-8859-1"], true),
    ] as [([String: String], Bool)])
  func locale(environment: [String: String], isASCII: Bool) {
    #expect(Glyphs.ofLocale { environment[$0] }.isASCII == isASCII)
  }

  @Test("a file or pipe gets UTF-8 in every locale")
  func pipe() {
    #expect(!Glyphs.of(isTerminal: false) { _ in nil }.isASCII)
    #expect(Glyphs.of(isTerminal: true) { _ in nil }.isASCII)
  }

  @Test("text for a terminal without UTF-8 is ASCII, and its columns stay aligned")
  func text() {
    var style = Style.plain()
    style.isASCII = true
    var columns = Table()
    columns.add("a → b", "“é” … ·")
    columns.add("a", Text(Text.tied("x", "y")))
    #expect(columns.lines(style) == ["a -> b  \"?\" ... -", "a       x y"])
    #expect("├ └ │ ─".ascii == "+ + | -")
  }

  @Test(
    "pictures are live only on a terminal that can move the cursor",
    arguments: [
      (true, "xterm", true), (true, "linux", true), (true, "dumb", false), (true, nil, false),
      (true, "", false), (false, "xterm", false), (true, "emacs", false),
    ] as [(Bool, String?, Bool)])
  func live(isTerminal: Bool, term: String?, isLive: Bool) {
    #expect(
      Console.movesCursor(isTerminal: isTerminal) { $0 == "TERM" ? term : nil } == isLive)
  }
}
