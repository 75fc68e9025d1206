import Connectivity
import Glibc
import LinuxSupport

/// A report of a problem: a text to read, followed by a recording to replay. Both have substitutes
/// for addresses and names.
struct Report {
  let bytes: [UInt8]
  /// The answers to clients at the end of the replay, for connctl.
  let answers: [UInt8]
  /// Why the original recording ends early, or `nil` if it is complete.
  let end: Recording.End?

  private static let line = "connd report 1\n"
  /// The maximum number of events in the text, which contains the last events.
  private static let maxEvents = 200

  /// - Throws: If the input is not a recording, or this version cannot replay it.
  init(of recording: [UInt8], by substitutes: Anonymizer = Anonymizer()) throws(RecordingError) {
    let substitute = try substitutes.recording(recording)
    let file = try RecordingFile(substitute)
    self.end = try RecordingFile(recording).end
    let (text, answers) = try Self.replayed(file, self.end, count: substitute.count)
    self.answers = answers
    self.bytes = Array(text.utf8) + substitute
  }

  /// Returns the length in bytes of a report's text, or 0 if the bytes are not a report.
  static func textLength(of bytes: [UInt8]) -> Int {
    let line = Array(Self.line.utf8)
    guard bytes.starts(with: line) else { return 0 }
    // connd writes every line of the text, and no line equals the first line of a recording.
    let start = [UInt8(ascii: "\n")] + RecordingHeader.line
    var rest = bytes[...]
    while let end = rest.firstIndex(of: start[0]) {
      if bytes[end...].starts(with: start) { return end + 1 }
      rest = bytes[(end + 1)...]
    }
    return 0
  }

  private static func replayed(
    _ file: RecordingFile, _ end: Recording.End?, count: Int
  ) throws(RecordingError) -> (text: String, answers: [UInt8]) {
    let recording = Recording(file)
    var (lines, complaints): ([String], [String]) = ([], [])
    var answers: [UInt8] = []
    let replay = try Replay(recording) {
      lines.append($0)
    } complain: {
      complaints.append($0)
    }
    replay.run { loop, store in
      let known = complaints.count
      answers = loop.answers(store) { complaints.count }
      complaints.removeLast(complaints.count - known)
    }
    let header = recording.header
    var text = """
      \(Self.line)
      Substitutes replace IP addresses, MAC addresses, and the names of Wi-Fi networks, hosts, domains and
      user-named links. Each value always gets the same substitute, computed with a key that is not stored.
      “connd --replay” replays this file. Everything after the text is binary.

      recorded by  connd \(header.version.printable), Linux \(header.kernel.printable)
      replayed by  connd \(Version.built), \(Self.architecture)
      recording    \(recording.turns.count) turns, \(count) bytes\(end.map { ", \($0.text)" } ?? "")
      events       \(max(0, lines.count - 1))


      """
    text += Self.section("unanswered", complaints.map { $0.printable + "\n" }.suffix(20))
    text += Self.section("configuration", [header.configuration])
    text += Self.section(
      lines.count > Self.maxEvents ? "the last \(Self.maxEvents) events" : "events",
      lines.suffix(Self.maxEvents))
    return (text + "--- the recording\n", answers)
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
  fileprivate var text: String {
    switch self {
    case .torn, .unfinished: "cut off after that"
    case .damaged: "damaged after that"
    case .full: "maximum size reached"
    }
  }
}
