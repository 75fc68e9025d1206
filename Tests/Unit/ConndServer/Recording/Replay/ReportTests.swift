import CLinux
import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityRules
import Glibc
import LinuxSupport
import Netlink
import TestKit
import TestTraits
import Testing

@testable import ConndServer

@Suite("Reports")
struct ReportTests {
  private static func replay(_ bytes: [UInt8]) throws -> (output: [String], complaints: [String]) {
    var (output, complaints): ([String], [String]) = ([], [])
    try Replay(Recording(bytes), print: { output.append($0) }, complain: { complaints.append($0) })
      .run()
    return (output, complaints)
  }

  /// The texts of a JSON line, each replaced by its substitute.
  private static func replaced(_ line: String, _ substitutes: Anonymizer) -> String {
    line.split(separator: "\"", omittingEmptySubsequences: false).map { text in
      let text = String(text)
      if let address = IPAddress(text) { return substitutes.address(address).description }
      for (known, substitute) in substitutes.operators {
        if text == known.name { return substitute.name }
        if text == known.code { return substitute.code }
      }
      return substitutes.linkNames[text] ?? text
    }.joined(separator: "\"")
  }

  @Test(
    "a report replays to the same transitions, with a substitute for each address and name",
    .blocking, arguments: ReplayTests.names, [0, 1, 2] as [UInt8])
  func transitions(_ name: String, _ key: UInt8) throws {
    let bytes = try ReplayTests.bytes("\(name).recording")
    let substitutes = Anonymizer(key: [key])
    let report = try Report(of: bytes, by: substitutes)
    let (expected, told) = (try Self.replay(bytes), try Self.replay(report.bytes))
    #expect(told.output == expected.output.map { Self.replaced($0, substitutes) })
    #expect(told.complaints.isEmpty)
    #expect(!substitutes.addresses.isEmpty)
  }

  @Test("a report begins with a description of its contents in words", arguments: ReplayTests.names)
  func text(_ name: String) throws {
    let bytes = try ReplayTests.bytes("\(name).recording")
    let report = try Report(of: bytes).bytes
    let length = Report.textLength(of: report)
    let text = String(decoding: report.prefix(length), as: UTF8.self)
    #expect(text.hasPrefix("connd report 1\n"))
    #expect(text.contains("\nrecorded by  connd "))
    #expect(text.contains("\n{\"event\": \"snapshot\""))
    #expect(text.utf8.allSatisfy { $0 == UInt8(ascii: "\n") || $0 >= 0x20 })
    #expect(Report.textLength(of: bytes) == 0)
  }

  @Test("a report has the answers at the end of the recording, as far as they were recorded")
  func answers() throws {
    let asked = try Connectivity_V1_ReplayedAnswers(
      serializedBytes: Report(of: try ReplayTests.bytes("questions.recording")).answers)
    #expect(asked.explanation.routePrefix == "0.0.0.0/0")
    #expect(asked.links.contains { $0.name == "eth0" })
    #expect(asked.status.hasIpv4 && asked.endTime.seconds > 1_700_000_000)
    let unasked = try Connectivity_V1_ReplayedAnswers(
      serializedBytes: Report(of: try ReplayTests.bytes("failover.recording")).answers)
    #expect(!unasked.hasExplanation && unasked.links.isEmpty)
    #expect(!unasked.history.transitions.isEmpty)
  }

  @Test("connd's own probes stay the same in a report, and other destinations do not")
  func probes() throws {
    let substitutes = Anonymizer(key: [1])
    var configuration = Configuration()
    #expect(substitutes.text(of: configuration) == configuration.text)
    configuration.destinations.ipv4 = [try IPAddress(spelt: "17.0.0.2")]
    #expect(!substitutes.text(of: configuration).contains("17.0.0.2"))
  }

  // MARK: - Leaks

  /// Values that must not be in a report, recognisable as bytes and as text.
  private enum Secret {
    static let address = "198.51.99.77"
    static let other = "2a03:2880:f0fc:c:face:b00c:0:25de"
    static let hardware: [UInt8] = [0x00, 0x1B, 0x63, 0x84, 0x45, 0xE6]
    static let name = "Xylophon"

    static var bytes: [[UInt8]] {
      let interface: [UInt8] = [0x02, 0x1B, 0x63, 0xFF, 0xFE, 0x84, 0x45, 0xE6]
      let texts = [
        Self.address, Self.other, "2a03:2880", "face:b00c", "00:1b:63", "001b63", "fe84:45e6",
        Self.name, Self.name.lowercased(), "26299",
      ]
      let addresses = [Self.address, Self.other].compactMap { IPAddress($0)?.bytes }
      return addresses + [Self.hardware, interface, Array(addresses[1].suffix(8))]
        + texts.map { Array($0.utf8) }
    }
  }

  private static func attribute(_ type: some BinaryInteger, _ payload: [UInt8]) -> [UInt8] {
    AttributeBytes.attribute(UInt16(type), payload)
  }

  private static func message(_ type: some BinaryInteger, _ payload: [UInt8]) -> [UInt8] {
    var message: [UInt8] = []
    withUnsafeBytes(of: UInt32(16 + payload.count).littleEndian) { message += $0 }
    withUnsafeBytes(of: UInt16(type).littleEndian) { message += $0 }
    return message + [UInt8](repeating: 0, count: 10) + payload
  }

  private static let address = IPAddress(Secret.address)?.bytes ?? []
  private static let other = IPAddress(Secret.other)?.bytes ?? []
  private static let byHardware = IPAddress("fe80::21b:63ff:fe84:45e6")?.bytes ?? []
  private static let name = Array(Secret.name.utf8) + [0]
  private static let zeros = [UInt8](repeating: 0, count: 64)

  /// Messages with every possible attribute, each with each secret in turn.
  private static func floods(header: [UInt8]) -> [[UInt8]] {
    [self.other, self.byHardware, Secret.hardware, self.name].map { secret in
      header + (1...70).flatMap { self.attribute($0, secret) }
    }
  }

  private static var datagrams: [(SocketRole, [UInt8])] {
    var datagrams: [(SocketRole, [UInt8])] = []
    // Every type that connd receives, and some others.
    for type in Array(16...35) + [80, 82, 104, 105, 116, 117, 140] {
      for (family, length) in [(2, 32), (10, 128)] as [(UInt8, UInt8)] {
        // A family's own header consists of numbers, and stays.
        for size in type == Int(RTM_NEWNETCONF) ? [1] : [8, 12, 16] {
          let header = Array(([family, length, length, 0] + Self.zeros).prefix(size))
          datagrams += Self.floods(header: header).map { (.listener, Self.message(type, $0)) }
        }
      }
      datagrams += Self.floods(header: [1, 0, 0, 0]).map {
        (.wirelessListener, Self.message(type, $0))
      }
    }
    datagrams.append(
      (
        .listener,
        Self.message(
          RTM_NEWLINK,
          Array(Self.zeros.prefix(16))
            + Self.attribute(IFLA_IFNAME, Self.name)
            + Self.attribute(
              IFLA_LINKINFO,
              Self.attribute(IFLA_INFO_KIND, Array("vxlan\0".utf8))
                + Self.attribute(
                  IFLA_INFO_DATA, (1...40).flatMap { Self.attribute($0, Self.address) })
            ))
      ))
    datagrams.append(
      (
        .listener,
        Self.message(
          RTM_NEWROUTE,
          [2, 0, 0, 0] + Array(Self.zeros.prefix(8))
            + Self.attribute(
              RTA_MULTIPATH.rawValue,
              [16, 0, 0, 0, 7, 0, 0, 0] + Self.attribute(RTA_GATEWAY.rawValue, Self.address)))
      ))
    // An attribute as long as a number is one, unless it is known to be an address.
    for (type, size, attributes) in [
      (Int(RTM_NEWADDR), 8, [1, 2, 4]), (Int(RTM_NEWROUTE), 12, [1, 2, 5, 7]),
      (Int(RTM_NEWNEIGH), 12, [1, 2]), (Int(RTM_NEWRULE), 12, [1, 2]),
      (Int(RTM_NEWLINK), 16, [1, 2]),
    ] {
      let header = Array(([2, 32, 32, 0] + Self.zeros).prefix(size))
      datagrams.append(
        (
          .listener,
          Self.message(type, header + attributes.flatMap { Self.attribute($0, Self.address) })
        ))
    }
    // An error quotes the request, and the kernel's text.
    let request = Self.message(
      RTM_GETROUTE, Array(Self.zeros.prefix(12)) + Self.attribute(1, Self.address))
    var error = Self.message(
      NLMSG_ERROR, [0xEA, 0xFF, 0xFF, 0xFF] + request + Self.attribute(1, Self.name))
    error[7] = UInt8(NLM_F_ACK_TLVS >> 8)
    datagrams.append((.requester, error))
    // Wi-Fi: the joined network, with information elements of every number.
    let elements = (0...255).flatMap { id -> [UInt8] in
      [UInt8(id), UInt8(Self.name.count)] + Self.name
    }
    let elementsOfSuites: [UInt8] =
      [48, 26, 1, 0, 0, 15, 172, 4, 1, 0, 0, 15, 172, 4, 1, 0, 0, 15, 172, 2, 0, 0]
      + Secret.hardware
    let bss =
      Self.attribute(NL80211_BSS_BSSID.rawValue, Secret.hardware)
      + Self.attribute(NL80211_BSS_INFORMATION_ELEMENTS.rawValue, elements)
      + Self.attribute(NL80211_BSS_BEACON_IES.rawValue, elementsOfSuites)
    datagrams.append(
      (
        .wirelessRequester,
        Self.message(40, [34, 1, 0, 0] + Self.attribute(NL80211_ATTR_BSS.rawValue, bss))
      ))
    // Messages that cannot be parsed.
    datagrams.append((.listener, Self.message(RTM_NEWADDR, Self.address)))
    datagrams.append((.listener, Self.address + Self.other + Self.name))
    datagrams.append((.listener, [255, 0, 0, 0] + Self.other + Self.name))
    return datagrams
  }

  /// A history that names secrets wherever it can.
  private static func past(
    _ snapshot: ConnectivitySnapshot, _ remote: IPAddress
  ) -> [ConnectivityChange] {
    let cause = ChangeCause(.link, "carrierLost", message: "RTM_NEWLINK", interface: Secret.name)
    let time = WallTime(microseconds: 1)
    var earlier = snapshot
    (earlier.generation, earlier.dns) = (2, nil)
    earlier.status.ipv4.validation = KernelPath.Validation(
      .portal, .networkd, portal: "https://\(Secret.name)/")
    let scope = Invalidation.Scope(
      interface: Secret.name, localAddresses: [remote], destination: .address(remote))
    let transition = ConnectivityChange.Transition(
      from: .offline, to: .wifi, bounced: false, cause: cause, time: time, snapshot: earlier)
    let invalidation = Invalidation(
      generation: 3, reason: .interfaceLost, severity: .destroy, scope: scope, cause: cause,
      time: time)
    let dns = snapshot.dns.map {
      ConnectivityChange.DNSChange(generation: 4, settings: $0, cause: cause, time: time)
    }
    let path = ConnectivityChange.PathChange(cause: cause, time: time, snapshot: snapshot)
    return [.transition(transition), .invalidation(invalidation)] + (dns.map { [.dns($0)] } ?? [])
      + [.path(path)]
  }

  private static func recording() throws -> [UInt8] {
    let remote = try #require(IPAddress(Secret.address))
    var path = KernelPath(status: .satisfied, chain: [KernelPath.Link(index: 7, name: Secret.name)])
    path.source = IPAddress(Secret.other)
    path.evidence = KernelPath.Evidence(.configuration, "\(Secret.name)*", .wifi)
    var snapshot = Store().snapshot
    snapshot.generation = 5
    snapshot.status.ipv4 = path
    snapshot.dns = DNSSettings(
      servers: [.init(remote)], search: ["\(Secret.name).com"],
      links: [.init(interface: Secret.name, servers: [.init(remote, zone: Secret.name)])])
    var costs = OverrideFile.Contents()
    costs.overrides = CostOverrides([.link(Secret.name): CostOverride(expensive: .on, user: 1)])
    let text = """
      # \(Secret.name)
      destinations: {ipv4: [\(Secret.address)]}
      links: [{match: \(Secret.name), medium: wifi}]
      """
    let header = RecordingHeader(
      configuration: text, watchdogTimeout: nil, restored: snapshot, costs: costs,
      past: Self.past(snapshot, remote))
    var destination = Destination(remote)
    destination.source = remote
    let registration = FlowTable.Registration(
      key: .init(mailbox: 1, id: 1), flow: Flow(Destination(remote), local: remote),
      knownPath: path)
    let override = CostRequest.CostOverrideRequest(
      target: .network(Secret.name), constrained: .on, expensive: nil, end: nil, user: 5)
    let inputs: [Input] = [
      .configure(try .parse(text, file: ""), .unheard), .flow(.add(registration)),
      .unwatch(destination, watcher: 1),
      .query(
        KernelQuery(
          id: 1, account: Account(number: 5), kind: .explain(destination, links: [], .unheard))),
      .query(
        KernelQuery(
          id: 4, account: Account(number: 5), kind: .judge([registration], .unheard))),
      .query(
        KernelQuery(id: 2, account: Account(number: 5), kind: .costs(.set(override), .unheard))),
      .query(
        KernelQuery(
          id: 3, account: Account(number: 5),
          kind: .costs(.forget(name: Secret.name, user: 5), .unheard))),
    ]
    var items = Self.datagrams.map { role, bytes in
      RecordedItem(.received(RecordedReception.datagram(bytes).message(on: role)))
    }
    let request = Self.message(RTM_GETROUTE, Self.floods(header: [])[0])
    items.append(
      RecordedItem(
        .sent(
          .with {
            $0.socket = .requester
            $0.datagram = request
          })))
    items += inputs.compactMap { RecordedInput($0).map { RecordedItem(.input($0)) } }
    items.append(RecordedItem(.input(.with { $0.configure = Secret.name })))
    let mobile = ModemLink(mobileOperator: MobileOperator(code: "26299", name: Secret.name))
    let metering = MeteringReports(manager: [Secret.name: .yes], phones: [Secret.name])
    let facts: [FactUpdate] = [
      .modems([Secret.name: .silent]), .modems(["wwan0": mobile]), .metering(metering),
      .portals([Secret.name: "https://\(Secret.name)/"]),
    ]
    items += facts.compactMap { RecordedFacts($0, afterLinks: true) }.map {
      RecordedItem(.facts($0))
    }
    let unknown = RecordedFacts.Modem.with { ($0.link, $0.generation) = ("wwan0", Secret.name) }
    items.append(RecordedItem(.facts(.with { $0.modems.links = [unknown] })))
    for kind in FileQuestion.Kind.allCases {
      for path in [
        "/sys/class/net/\(Secret.name)/ifindex", "/sys/class/net/\(Secret.name)/device/driver",
        "/sys/class/net/eth0/uevent", "/sys/class/net/eth0", "/sys/class/net/eth0/\(Secret.name)",
        "/sys/class/net/eth0/device/bInterfaceClass", "/sys/class/tty/ttyUSB0/device/driver",
        "/sys/class/tty/tty\(Secret.name)/device/driver", "/run/lock", "/run/\(Secret.name).pid",
        "/run/lock/LCK..ttyUSB0", "/run/lock/LCK..tty\(Secret.name)",
        "/run/pppd/\(Secret.name).pid", "/proc/self/net/pppoe",
        "/etc/resolv.conf", "/etc/\(Secret.name)",
        "/run/resolvconf/interface/\(Secret.name).dhcpcd",
        "/run/resolvconf/interface", "/run/systemd/netif/links/7", "7", Secret.name,
      ] {
        for text in [
          Secret.name, "lower_\(Secret.name)\0\(Secret.name)\0", "INTERFACE=\(Secret.name)\n",
          "DEVTYPE=é\(Secret.name)\n", "nameserver \(Secret.address)%\(Secret.name)\n",
          "search \(Secret.name).com\n# \(Secret.name)\n", "DNS=\(Secret.other)#\(Secret.name)\n",
          "DOMAINS=~\(Secret.name).com \(Secret.name).com\n",
          "LCK..tty\(Secret.name)\0LCK..ttyS\(Secret.name)7\0", "4711 \(Secret.name)\n",
          "\(Secret.name)\n0100 \(Secret.name) \(Secret.name)\n",
        ] {
          items.append(
            RecordedItem(.file(.init(FileQuestion(kind, path), .success(Array(text.utf8))))))
        }
      }
    }
    let records = [.endOfTurn] + items + [.endOfTurn]
    return RecordingHeader.line
      + ([header.encoded] + records.map { $0.serializedBytes() }).flatMap(RecordFrame.framed)
  }

  @Test("no address or name of a recording is in its report, wherever it stood", .blocking)
  func leaks() throws {
    let bytes = try Self.recording()
    for secret in Secret.bytes.prefix(3) { #expect(bytes.holds(secret)) }
    for key: UInt8 in 1...2 {
      let made = try Report(of: bytes, by: Anonymizer(key: [key, 77]))
      let report = made.bytes
      for secret in Secret.bytes {
        #expect(
          !(report + made.answers).holds(secret),
          "\(secret) \(String(decoding: secret, as: UTF8.self))")
      }
      let answers = try Connectivity_V1_ReplayedAnswers(serializedBytes: made.answers)
      #expect(answers.history.transitions.count >= 1 && answers.history.invalidations.count >= 1)
      // It is still a recording, of more than the header.
      let file = try RecordingFile(report)
      #expect(file.end == nil && file.items.count > 100)
    }
  }

  @Test(
    "any corrupted recording → a report, or an error", .blocking, arguments: ReplayTests.names)
  func hostile(_ name: String) throws {
    let whole = try ReplayTests.bytes("\(name).recording")
    let records = ReplayTests.records(whole)
    var generator = SeededGenerator(seed: UInt64(name.utf8.count))
    for _ in 0..<15 {
      let bytes = ReplayTests.rewritten(records, &generator)
      guard let report = try? Report(of: bytes) else { continue }
      #expect(throws: Never.self) { try RecordingFile(report.bytes) }
    }
  }
}
