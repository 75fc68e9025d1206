import Connectivity
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

@Suite("Keys of connctl top")
struct ViewOptionsTests {
  private func typed(_ text: String, _ options: ViewOptions = ViewOptions()) -> ViewOptions {
    var options = options
    _ = options.take(text.utf8)
    return options
  }

  @Test("q quits, except while a filter is typed")
  func quit() {
    var options = ViewOptions()
    #expect(options.take("q".utf8) == .quit)
    #expect(options.take("/q".utf8) == .changed)
    #expect(options.filter == "q" && options.isTyping)
    #expect(options.take("\rq".utf8) == .quit)
  }

  @Test("arrow keys and unknown keys → nothing changes", arguments: ["\u{1B}[A", "\u{1B}OP", "x"])
  func unknown(_ keys: String) {
    var options = ViewOptions()
    #expect(options.take(keys.utf8) == .nothing)
    #expect(options == ViewOptions())
  }

  @Test("s changes the order of the links, and comes back to the first")
  func order() {
    #expect(self.typed("s").order == .traffic)
    #expect(self.typed("ss").order == .name)
    #expect(self.typed("sss") == ViewOptions())
  }

  @Test("Enter keeps a filter, Backspace shortens it, and Esc removes it")
  func filter() {
    let kept = self.typed("/wlaé\u{7F}\n")
    #expect(kept.filter == "wla" && !kept.isTyping)
    #expect(kept.text == "filter: wla (Esc removes it)")
    #expect(self.typed("\u{1B}", kept) == ViewOptions())
    #expect(self.typed("/\u{7F}") == ViewOptions())
    #expect(self.typed("/" + String(repeating: "x", count: 99)).filter.count == 32)
  }

  @Test("a filter shows only the rows that contain it, whatever their case")
  func rows() throws {
    let options = self.typed("/WLAN\n")
    let rows = Overview.sample.picture(80, 24, options: options)
    #expect(rows.contains { $0.hasPrefix("wlan0") })
    #expect(!rows.contains { $0.hasPrefix("eth0") || $0.hasPrefix("mail") })
    #expect(rows.contains { $0.hasPrefix("CHANGES") })
    #expect(rows.last == "filter: WLAN (Esc removes it)")
  }

  @Test("the links in the order of their traffic and of their names")
  func sorted() throws {
    func links(_ keys: String) -> [String] {
      let rows = Overview.sample.picture(80, 24, options: self.typed(keys))
      return rows.drop { !$0.hasPrefix("LINK") }.dropFirst().prefix { !$0.isEmpty }.map {
        String($0.prefix { $0 != " " })
      }
    }
    #expect(links("ss") == links("").sorted())
    #expect(links("s").first == "wlan0")
  }

  @Test("a shows the addresses of the links")
  func addresses() throws {
    var overview = Overview.sample
    overview.links[0].addresses = ["192.0.2.7/24"]
    #expect(!overview.picture(120, 40).contains { $0.contains("192.0.2.7/24") })
    let rows = overview.picture(120, 40, options: self.typed("a"))
    #expect(rows.contains { $0.contains("192.0.2.7/24") })
  }
}
