import Connectivity
import ConnectivityProtocol
import TestKit
import Testing

@testable import ConnctlCommands

extension Connectivity_V1_Diagnosis {
  static func sample(
    _ verdict: DiagnosisVerdict, hosts: [String] = [], _ evidence: String...
  ) -> Self {
    var diagnosis = Self()
    diagnosis.verdict = .init(verdict)
    diagnosis.hosts = hosts
    diagnosis.silentHosts = UInt32(hosts.count)
    diagnosis.path = .init(KernelPath.wlan)
    diagnosis.evidence = evidence
    return diagnosis
  }

  static let nothingWrong = Self.sample(.nothingWrong, "4 hosts heard within the last seconds")
  static let silentHost = Self.sample(
    .onlyDestination, hosts: ["203.0.113.9"], "2 connections to 1 host without an answer")
}

@Suite("Text of a diagnosis")
struct DiagnosisTextTests {
  private func lines(
    _ diagnosis: Connectivity_V1_Diagnosis, of subject: String? = nil,
    _ router: RouterProbe.Answer? = nil, isAnonymous: Bool = false
  ) throws -> [String] {
    try Style.plain(width: .max).diagnosis(
      diagnosis, of: subject, router, isAnonymous: isAnonymous)
  }

  @Test("Q7 the verdict is the first line, and the evidence follows")
  func whole() throws {
    expectLines(
      try self.lines(.nothingWrong),
      """
      Nothing is wrong
        4 hosts heard within the last seconds
        by wlan0, router 192.0.2.1
      """)
    var held = Connectivity_V1_Diagnosis.sample(
      .notLetOut, hosts: ["203.0.113.1", "203.0.113.2"], "2 connections")
    held.incomplete = true
    expectLines(
      try self.lines(held),
      """
      This machine does not let it out
        2 connections
        hosts: 203.0.113.1, 203.0.113.2
        by wlan0, router 192.0.2.1
        there are more connections than connd compares
        look, as root, at “nft list ruleset”, at the kill switch of a VPN, at quotas, and at \
      IPAddressDeny= of the unit
      """)
  }

  @Test("Q7 each verdict has its first line", arguments: DiagnosisVerdict.allCases)
  func headlines(verdict: DiagnosisVerdict) throws {
    var diagnosis = Connectivity_V1_Diagnosis.sample(verdict, hosts: ["203.0.113.9"])
    let lines = try self.lines(diagnosis)
    #expect(lines[0].first?.isUppercase == true && !lines[0].hasSuffix("."))
    #expect(lines.contains { $0.contains("203.0.113.9") })
    guard verdict == .onlyDestination else { return }
    #expect(lines[0] == "Only 203.0.113.9 does not answer")
    diagnosis.port = 22
    #expect(try self.lines(diagnosis)[0] == "Only port 22 of 203.0.113.9 does not answer")
    diagnosis.hosts.append("203.0.113.8")
    #expect(try self.lines(diagnosis)[0] == "Only port 22 does not answer")
    diagnosis.family = .ipv6
    #expect(try self.lines(diagnosis)[0] == "Only IPv6 does not work")
  }

  @Test("Q7 --ask: the router answers → the fault is beyond it; it is silent → nothing follows")
  func router() throws {
    let diagnosis = Connectivity_V1_Diagnosis.sample(.nothingAnswers)
    #expect(try self.lines(diagnosis).last == "  “connctl why --ask” asks the router")
    let answered = try self.lines(diagnosis, .answers)
    #expect(answered[0] == "Nothing beyond the router answers")
    #expect(answered.last == "  the router answers")
    let silent = try self.lines(diagnosis, .silent)
    #expect(silent[0] == "Nothing off this network answers")
    #expect(silent.last == "  the router did not answer, which proves nothing")
  }

  @Test("Q7 too little traffic of a program → it is named, with the questions that may help")
  func tooLittle() throws {
    let diagnosis = Connectivity_V1_Diagnosis.sample(.unknown, "the program has no connection")
    expectLines(
      try self.lines(diagnosis, of: "my app"),
      """
      Unknown: too little traffic to judge “my app” by
        the program has no connection
        by wlan0, router 192.0.2.1
        “connctl why 'my app' --ask” asks the router
        “connctl why” judges all connections
      """)
    #expect(try self.lines(diagnosis).first == "Unknown: too little traffic to judge by")
  }

  @Test(
    "Q7 a report → the diagnosis has no addresses, names and users",
    arguments: DiagnosisVerdict.allCases)
  func anonymous(verdict: DiagnosisVerdict) throws {
    var diagnosis = Connectivity_V1_Diagnosis.sample(
      verdict, hosts: ["203.0.113.9", "203.0.113.8"])
    diagnosis.user = 4711
    diagnosis.path.reason = .noCarrier
    diagnosis.path.status = .unsatisfied
    let text = try self.lines(diagnosis, isAnonymous: true).joined(separator: "\n")
    for secret in ["203.0.113", "192.0.2", "wlan0", "4711"] {
      #expect(!text.contains(secret), "\(text)")
    }
  }

  @Test("Q7 why: 0 if nothing is wrong, 1 otherwise; a host limits the question")
  func exits() async throws {
    let fine = try await connctl("why")
    #expect(fine.status == 0 && fine.screen.outputLines.first == "Nothing is wrong")
    let host = try await connctl("why", "203.0.113.9", "--json")
    #expect(host.status == 1)
    #expect(host.screen.output.contains("\"verdict\": \"onlyDestination\""))
    let process = try await connctl("why", "4194305")
    #expect(process.status == 64 && process.screen.errors.contains("there is no process"))
    let absent = String(repeating: "a", count: 64) + ".invalid"
    let name = try await connctl("why", absent)
    let remark = name.screen.errors
    #expect(name.status == 0, "\(remark)")
    #expect(
      remark.hasPrefix(
        "connctl: “\(absent)” is not a running program, and cannot resolve “\(absent)”: "))
    #expect(
      remark.hasSuffix(
        "; judging all connections (“connctl connections” lists programs and hosts)\n"))
  }

  @Test("Q7 the argument is a process, a program or a host")
  func subjects() throws {
    let proc = try TemporaryDirectory()
    try Command.run([
      "sh", "-c",
      """
      cd "$0" && mkdir -p 7/fd 8/fd 9/fd && echo ssh >7/comm && echo averyveryverylo >8/comm &&
      echo idle >9/comm && ln -s 'socket:[70]' 7/fd/3 && ln -s 'socket:[71]' 7/fd/4 &&
      ln -s /dev/null 7/fd/5 && ln -s 'socket:[80]' 8/fd/3
      """, proc.path,
    ])
    func sockets(_ text: String) throws -> [UInt64]? {
      try DiagnosisQuestion(text, in: proc.path).request?.socketInodes
    }
    #expect(try sockets("7") == [70, 71] && (try sockets("ssh")) == [70, 71])
    #expect(try sockets("averyveryverylongname") == [80])
    #expect(try sockets("idle") == nil)
    let host = try #require(try DiagnosisQuestion("[2001:db8::1]:443", in: proc.path).request)
    #expect(host.hosts == ["2001:db8::1"] && host.port == 443 && host.socketInodes.isEmpty)
    let port = try #require(try DiagnosisQuestion(":22", in: proc.path).request)
    #expect(port.hosts.isEmpty && port.port == 22)
  }
}
