import ArgumentParser
import Connectivity
import Testing

@testable import ConnctlCommands

@Suite("Arguments")
struct ParsingTests {
  @Test(
    "a timeout is a number and a unit",
    arguments: [
      ("500ms", .milliseconds(500)), ("5s", .seconds(5)), ("2m", .seconds(120)),
      ("1h", .seconds(3_600)), ("3", .seconds(3)), ("0", .zero), ("0s", .zero),
      ("1.5s", .milliseconds(1_500)), ("0.25", .milliseconds(250)), ("1.5m", .seconds(90)),
      ("1d", .seconds(86_400)), ("1.5d", .seconds(129_600)), ("0.000001s", .microseconds(1)),
      ("1000000000h", .seconds(3_600_000_000_000)),
    ] as [(String, Duration)])
  func timeout(text: String, duration: Duration) {
    #expect(Timeout(argument: text)?.duration == duration)
  }

  @Test(
    "a text that is not a timeout is refused",
    arguments: [
      "", "-1", "-5s", "+5s", "s", "ms", ".", "5.", ".5", "1.2.3", "5 s", "5S", "5w", "1m30s",
      "1e3", "abc",
      "0x10",
      "9999999999", "99999999999999999999", "1.0000000000", "٣s", "nan", "inf",
    ])
  func noTimeout(text: String) {
    #expect(Timeout(argument: text) == nil)
  }

  @Test(
    "a misspelt word suggests the nearest one",
    arguments: [
      ("stauts", "status"), ("hist", "history"), ("wtach", "watch"), ("i", "is"), ("link", "links"),
      ("foo", nil), ("", nil), ("zz", nil), ("ls", nil), ("far", nil), ("statusstatus", nil),
      ("pth", "path"),
    ] as [(String, String?)])
  func nearest(word: String, nearest: String?) {
    #expect(word.nearest(of: Connctl.commandNames) == nearest)
  }

  @Test(
    "a text that is more than a host is refused",
    arguments: [
      "203.0.113.9:443", "[2001:db8::1]", "[2001:db8::1]:443", "10.0.0.0/8", "http://x/",
      "example.com:80", "example.com/",
    ])
  func moreThanHost(text: String) {
    #expect(Resolver.isMoreThanHost(text))
    #expect(throws: ResolutionError.self) { try Resolver.hosts(of: text) }
  }

  @Test(
    "an endpoint is a host with an optional port",
    arguments: [
      ("example.com", "example.com", 0), ("example.com:443", "example.com", 443),
      ("192.0.2.1:65535", "192.0.2.1", 65_535), ("2001:db8::1", "2001:db8::1", 0),
      ("::1", "::1", 0), ("[::1]", "::1", 0), ("[2001:db8::1]:1", "2001:db8::1", 1),
      ("https://example.com/page?x#y", "example.com", 0), ("ssh://me@[::1]:22", "::1", 22),
      ("https://example.com:8443", "example.com", 8443),
      ("fe80::1%lo", "fe80::1%lo", 0), ("::ffff:192.0.2.7", "::ffff:192.0.2.7", 0),
    ] as [(String, String, UInt16)])
  func endpoint(text: String, host: String, port: UInt16) throws {
    let endpoint = try Endpoint(text)
    #expect(endpoint.host == host)
    #expect(endpoint.port == port)
  }

  @Test(
    "a text that is not an endpoint is refused",
    arguments: [
      "192.0.2.1:", "192.0.2.1:0", "192.0.2.1:65536", "192.0.2.1:+1", "192.0.2.1:-1", "x:https",
      "[::1", "[::1]443", "[::1]:", "[192.0.2.1]:443", "[example.com]:443", "[]:1",
    ])
  func noEndpoint(text: String) {
    #expect(throws: (any Error).self) { try Endpoint(text) }
  }

  @Test("a host is accepted", arguments: ["localhost", "example.com", "fe80::1%lo", "a_b", "10.1"])
  func host(text: String) {
    #expect(!Resolver.isMoreThanHost(text))
  }

  @Test(
    "a word that means a condition suggests it",
    arguments: [
      ("onlin", "Did you mean 'online'?"), ("offline", "Did you mean 'none'?"),
      ("unmetered", "Did you mean 'not-metered'?"), ("not-wif", "Did you mean 'not-wifi'?"),
      ("telepathic", "unknown condition 'telepathic'. Conditions: online, none"),
    ])
  func conditionHint(word: String, hint: String) {
    let error = #expect(throws: ValidationError.self) { try Condition.reading(word) }
    #expect(error?.message.contains(hint) == true, "\(error?.message ?? "")")
  }

  @Test(
    "the parser's suggestion stays if it is near",
    arguments: [
      (
        "Error: Unknown option '--for'. Did you mean '--json'?\nUsage: x",
        "Error: Unknown option '--for'\nUsage: x"
      ),
      ("Error: Unknown option '--jsn'. Did you mean '--json'?", nil), ("Error: other", nil),
      ("", nil),
    ] as [(String, String?)])
  func suggestion(message: String, changed: String?) {
    #expect(message.withoutFarFetchedSuggestion == changed ?? message)
  }

  @Test("every condition parses from its description")
  func conditions() {
    #expect(Condition.all.count == 24)
    for condition in Condition.all {
      #expect(Condition(argument: condition.description) == condition)
    }
    #expect(Condition(argument: "not-ipv6")?.negated == true)
  }

  @Test(
    "a text that is not a condition is refused",
    arguments: ["", "not-", "not-not-wifi", "Online", "unknown", "wifi ", "notwifi"])
  func noCondition(text: String) {
    #expect(Condition(argument: text) == nil)
  }
}

@Suite("Conditions")
struct ConditionTests {
  @Test(
    "the category decides", arguments: NetworkCategory.allCases)
  func category(category: NetworkCategory) {
    var status = ConnectivityStatus.sample
    status.category = category
    let holding = Condition.Subject.allCases.filter {
      ![.ipv4, .ipv6, .expensive, .constrained].contains($0)
        && Condition(subject: $0).holds(for: status)
    }
    let expected: [Condition.Subject] =
      switch category {
      case .offline: [.none]
      case .wifi: [.online, .wifi]
      case .cellular: [.online, .cellular]
      case .wired: [.online, .wired]
      case .other: [.online, .other]
      // K8: assume to be online.
      case .unknown: [.online]
      }
    #expect(holding == expected)
  }

  @Test(
    "a family's condition holds if its path is satisfied", arguments: KernelPath.Status.allCases)
  func families(pathStatus: KernelPath.Status) {
    var status = ConnectivityStatus.sample
    status.ipv6.status = pathStatus
    #expect(Condition(subject: .ipv6).holds(for: status) == (pathStatus == .satisfied))
    #expect(Condition(subject: .ipv4).holds(for: status))
    status.ipv4.status = pathStatus
    #expect(Condition(subject: .ipv4).holds(for: status) == (pathStatus == .satisfied))
  }

  @Test("costs are those of the path that the summary follows")
  func costs() {
    var status = ConnectivityStatus.sample
    status.ipv6.costsMoney = true
    status.ipv6.constraint = .constrained
    #expect(!Condition(subject: .expensive).holds(for: status))
    #expect(!Condition(subject: .constrained).holds(for: status))
    status.ipv4.costsMoney = true
    #expect(Condition(subject: .expensive).holds(for: status))
    #expect(!Condition(subject: .constrained).holds(for: status))
    status.ipv4.constraint = .constrained
    #expect(Condition(subject: .constrained).holds(for: status))
    #expect(Condition(subject: .ultra, negated: true).holds(for: status))
    status.ipv4.constraint = .ultra
    #expect(Condition(subject: .ultra).holds(for: status))
    #expect(Condition(subject: .constrained).holds(for: status))
  }

  @Test("V1 the internet was not checked → neither validated nor not-validated holds")
  func validation() {
    var status = ConnectivityStatus.sample
    func held() -> [Bool] {
      [false, true].map { Condition(subject: .validated, negated: $0).holds(for: status) }
    }
    #expect(held() == [false, false])
    status.ipv4.validation = KernelPath.Validation(.full, .networkManager)
    #expect(held() == [true, false])
    status.ipv4.validation = KernelPath.Validation(.portal, .networkManager)
    #expect(held() == [false, true])
  }

  @Test("not- negates", arguments: Condition.Subject.allCases)
  func negation(subject: Condition.Subject) {
    for category in NetworkCategory.allCases {
      var status = ConnectivityStatus.sample
      status.category = category
      status.ipv4.validation = KernelPath.Validation(.portal, .networkManager)
      #expect(
        Condition(subject: subject).holds(for: status)
          != Condition(subject: subject, negated: true).holds(for: status))
    }
  }
}
