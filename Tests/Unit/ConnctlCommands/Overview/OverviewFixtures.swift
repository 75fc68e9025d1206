import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import TestKit
import Testing

@testable import ConnctlCommands

extension Connectivity_V1_Client {
  static let watcher: Self = {
    var client = Self()
    (client.process, client.user) = (4_000_001, 1000)
    client.startTime = .init(.sample)
    client.watch = .init()
    return client
  }()

  static let pathFollower: Self = {
    var client = Self.watcher
    client.path.destination = "203.0.113.9"
    return client
  }()

  static let guardian: Self = {
    var client = Self()
    (client.process, client.user) = (4_000_002, 1001)
    client.startTime = .init(.sample)
    client.guarding.flows = 3
    client.guarding.reason = .interfaceLost
    client.guarding.severity = .destroy
    client.guarding.invalidationTime = .init(.sample)
    return client
  }()
}

extension Overview {
  /// IPv4 over Wi-Fi, IPv6 over a stack, and a modem beside them.
  static let sample: Overview = {
    var status = ConnectivityStatus(ipv4: .wlan, ipv6: .stack, preferred: .ipv4)
    status.ipv6.source = IPAddress("2001:db8::7")
    status.ipv6.gateway = IPAddress("fe80::1")
    var overview = Overview(
      ConnectivitySnapshot(generation: 22, since: .sample, status: status, dns: .sample))
    var wlan = Connectivity_V1_Link.wlan
    wlan.wireless.ssid = "home"
    overview.links = [
      wlan, .stacked("vlan10", kind: "vlan"), .stacked("bond0", kind: "bond"), .stacked("eth0"),
      .ppp, .usb,
    ]
    var loss = Invalidation.sample
    loss.generation = 19
    overview.note([.transition(.sample), .invalidation(loss), .path(.sample)])
    let start = ContinuousClock.now
    overview.rates.take(
      ["wlan0": .init(received: 0, sent: 0), "eth0": .init(received: 7, sent: 7)], at: start)
    overview.rates.take(
      [
        "wlan0": .init(received: 2_468_000, sent: 1998), "eth0": .init(received: 7, sent: 107),
        "ppp0": .init(received: 1, sent: 1),
      ], at: start.advanced(by: .seconds(2)))
    overview.clients = [.watcher, .pathFollower, .guardian]
    overview.processNames = [4_000_001: "mail"]
    return overview
  }()

  /// Without trailing blanks.
  func picture(
    _ columns: Int, _ rows: Int, _ glyphs: Glyphs = .unicode, options: ViewOptions = ViewOptions()
  ) -> [String] {
    self.frame(
      Frame.Size(columns: columns, rows: rows), glyphs, .plain(width: columns),
      now: .sample.adding(seconds: 185), options: options
    ).lines.map { $0.text(color: false) }
  }
}

extension String {
  /// As one line of a picture.
  func line(_ glyphs: Glyphs = .unicode, rightToLeft: Bool = false) -> Line {
    var line = Line(glyphs)
    line.append(self, rightToLeft: rightToLeft)
    return line
  }
}

/// A terminal with the ECMA-48 sequences that pictures use; it fails on any other.
struct FakeTerminal {
  private(set) var rows: [[String]]
  private var (row, column) = (0, 0)
  private(set) var unknown: [String] = []

  init(_ size: Frame.Size) {
    self.rows = Array(repeating: Array(repeating: " ", count: size.columns), count: size.rows)
  }

  mutating func take(_ text: String) {
    var rest = text.unicodeScalars[...]
    while let scalar = rest.popFirst() {
      guard scalar == "\u{1B}" else {
        self.show(scalar)
        continue
      }
      guard rest.popFirst() == "[" else {
        self.unknown.append("ESC without [")
        continue
      }
      let parameters = String(String.UnicodeScalarView(rest.prefix { $0.value < 0x40 }))
      rest = rest.dropFirst(parameters.unicodeScalars.count)
      self.obey(rest.popFirst(), parameters)
    }
  }

  private mutating func obey(_ final: Unicode.Scalar?, _ parameters: String) {
    let numbers = parameters.split(separator: ";").compactMap { Int($0) }
    switch final {
    case "H":
      (self.row, self.column) = numbers.isEmpty ? (0, 0) : (numbers[0] - 1, numbers[1] - 1)
    case "J": self.rows = self.rows.map { $0.map { _ in " " } }
    case "K":
      for column in self.column..<self.rows[self.row].count { self.rows[self.row][column] = " " }
    case "m": break
    default: self.unknown.append("\(parameters)\(final.map(String.init) ?? "")")
    }
  }

  private mutating func show(_ scalar: Unicode.Scalar) {
    guard let columns = scalar.columns, scalar.value >= 0x20 else {
      return self.unknown.append("U+\(String(scalar.value, radix: 16))")
    }
    if columns == 0 {
      let last = self.rows[self.row][..<self.column].lastIndex { !$0.isEmpty } ?? 0
      self.rows[self.row][last].unicodeScalars.append(scalar)
      return
    }
    guard self.column + columns <= self.rows[self.row].count else {
      return self.unknown.append("beyond the last column")
    }
    self.rows[self.row][self.column] = String(Character(scalar))
    if columns == 2 { self.rows[self.row][self.column + 1] = "" }
    self.column += columns
  }

  /// A terminal that shows a frame.
  static func showing(_ frame: Frame) -> FakeTerminal {
    var terminal = FakeTerminal(frame.size)
    terminal.take(frame.update(from: nil, color: true))
    return terminal
  }
}

/// Compares with a file in `Tests/Fixtures/pictures`.
func expectPicture(
  _ lines: [String], _ name: String, sourceLocation: SourceLocation = #_sourceLocation
) throws {
  if let difference = try Picture.difference(lines, from: name) {
    Issue.record("\(difference)", sourceLocation: sourceLocation)
  }
}
