import Connectivity
import ConnectivityProtocol
import TestKit
import Testing

@testable import ConnctlCommands

@Suite("Text of a report")
struct ReportTextTests {
  private static var answers: Connectivity_V1_ReplayedAnswers {
    var answers = Connectivity_V1_ReplayedAnswers()
    answers.status = Connectivity_V1_Status(.sample)
    answers.endTime = .init(.sample.adding(seconds: 185))
    answers.explanation = .sample
    answers.links = [.wlan, .docker]
    answers.history.transitions = [.init(.started), .init(.sample)]
    answers.history.invalidations = [.init(.sample)]
    var cost = ConnectivityChange.PathChange(
      cause: ChangeCause(.user, "constrainedSet", message: "uid 0", interface: "wlan0"),
      time: .sample, snapshot: .sample(22))
    cost.snapshot.status.ipv4.constraint = .constrained
    answers.history.paths = [.init(cost)]
    return answers
  }

  @Test("a report has the output of status, explain, links, why and history, with times in UTC")
  func whole() throws {
    try expectPicture(
      Style.report.answers(Self.answers, .running(file: "/tmp/x"), .silentHost), "report")
  }

  @Test("a report names users by number")
  func users() throws {
    let lines = try Style.report.answers(Self.answers, nil)
    #expect(lines.contains { $0.hasSuffix("constrained on wlan0, by user 0") })
  }

  @Test("a recording without the kernel's answers → the report says so")
  func missing() throws {
    var answers = Self.answers
    answers.clearExplanation()
    (answers.links, answers.history) = ([], .init())
    let lines = try Style.report.answers(
      answers, .configured(why: "connd is not running at /home/alice/connd.sock"))
    #expect(lines.filter { $0.hasPrefix("not available: the recording") }.count == 2)
    #expect(lines.contains("no changes"))
    // The path of a socket may name the user.
    #expect(!lines.joined().contains("alice"))
  }

  @Test("connd watches another namespace → the report names the reason")
  func elsewhere() throws {
    let lines = try Style.report.answers(Self.answers, .configured(why: "", isElsewhere: true))
    #expect(lines.contains("because the running connd watches another network namespace."))
  }

  @Test("the text stands before the first section of the report")
  func place() {
    let report = Array("connd report 1\nby connd\n\n--- configuration\nx\n".utf8)
    #expect(
      String(decoding: report.inserting(["--- status", "wired", ""]), as: UTF8.self)
        == "connd report 1\nby connd\n\n--- status\nwired\n\n--- configuration\nx\n")
  }
}
