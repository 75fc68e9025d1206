import Connectivity
import ConnectivityProtocol
import Glibc
import SwiftProtobuf

/// What is given to others where something went wrong: a text to be read, and behind it a recording to be replayed, in both of
/// which substitutes stand for addresses and names.
struct Report {
  let bytes: [UInt8]
  /// Where the recording that it was made of ends before its time.
  let end: Recording.End?

  private static let line = "connd report 1\n"
  /// Of the events the last are in the text.
  private static let mostEvents = 200

  /// - Throws: where it is made of no recording, or of one that this version cannot replay.
  init(of recording: [UInt8], by substitutes: Substitutes = Substitutes()) throws(RecordingError) {
    let substitute = try substitutes.recording(recording)
    let file = try RecordingFile(substitute)
    self.end = try RecordingFile(recording).end
    let text = try Self.text(file, self.end, count: substitute.count)
    self.bytes = Array(text.utf8) + substitute
  }

  /// How long the text is that a report begins with, in octets; 0 for what is none.
  static func textLength(of bytes: [UInt8]) -> Int {
    let line = Array(Self.line.utf8)
    guard bytes.starts(with: line) else { return 0 }
    // Each line of the text is one of ours, and none is this.
    let start = [UInt8(ascii: "\n")] + RecordingHeader.line
    var rest = bytes[...]
    while let end = rest.firstIndex(of: start[0]) {
      if bytes[end...].starts(with: start) { return end + 1 }
      rest = bytes[(end + 1)...]
    }
    return 0
  }

  private static func text(
    _ file: RecordingFile, _ end: Recording.End?, count: Int
  ) throws(RecordingError) -> String {
    let recording = Recording(file)
    var (lines, complaints): ([String], [String]) = ([], [])
    var explanation: String?
    let replay = try Replay(recording) {
      lines.append($0)
    } complain: {
      complaints.append($0)
    }
    replay.run { loop in
      let known = complaints.count
      let answer = loop.ask { explainer throws(KernelUnavailable) in try explainer.explain(nil) }
      // What was not asked then has no answer now.
      if complaints.count == known, let told = try? answer.get() {
        explanation = told.textFormatString()
      }
      complaints.removeLast(complaints.count - known)
    }
    let header = recording.header
    var text = """
      \(Self.line)
      Substitutes stand for IP and hardware addresses, for names of Wi-Fi networks, hosts and domains, and for such
      names of links as somebody chose; the same for the same, by a key that is kept nowhere. “connd --replay” replays
      this file. Behind the text it is bytes.

      recorded by  connd \(header.version.printable), Linux \(header.kernel.printable)
      replayed by  connd \(Version.string), \(Self.architecture)
      recording    \(recording.turns.count) turns, \(count) bytes\(end.map { ", \($0.words)" } ?? "")
      events       \(max(0, lines.count - 1))


      """
    text += Self.section("unanswered", complaints.map { $0.printable + "\n" }.suffix(20))
    text += Self.section("the end, explained", [explanation ?? "not asked while it was recorded\n"])
    text += Self.section("configuration", [header.configuration])
    text += Self.section(
      lines.count > Self.mostEvents ? "the last \(Self.mostEvents) events" : "events",
      lines.suffix(Self.mostEvents))
    return text + "--- the recording\n"
  }

  private static func section(_ title: String, _ lines: some Collection<String>) -> String {
    lines.isEmpty ? "" : "--- \(title)\n" + lines.joined() + "\n"
  }

  private static var architecture: String {
    var names = utsname()
    guard uname(&names) == 0 else { return "" }
    return withUnsafeBytes(of: names.machine) { bytes in
      String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
  }
}

extension Recording.End {
  fileprivate var words: String {
    switch self {
    case .torn, .unfinished: "cut off behind them"
    case .damaged: "damaged behind them"
    case .full: "as long as it might become"
    }
  }
}

extension String {
  fileprivate var printable: String { String(self.filter { $0 >= " " && $0 != "\u{7F}" }) }
}
