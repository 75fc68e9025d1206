import Foundation
import TestKit
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Worst case")
struct WorstCaseTests {
  private static func file(_ name: String) throws -> String {
    try String(contentsOfFile: Checkout.path(name), encoding: .utf8)
  }

  private static func setting(_ name: String, _ suffix: String) throws -> Int {
    let unit = try Self.file("systemd/connd.service")
    let match = try unit.firstMatch(of: Regex("\n\(name)=(\\d+)\(suffix)\n"))
    return try #require(match?.output[1].substring.flatMap { Int($0) }, "\(name)")
  }

  @Test("D4 clients take all that the default limits allow → 64 MiB of the unit's memory are left")
  func memory() throws {
    let limit = try Self.setting("MemoryMax", "M") << 20
    #expect(WorstCase.total + WorstCase.margin <= limit, "\(WorstCase.table)")
  }

  @Test("D4 a service has a method → the table of worst cases has a row for it, and no other row")
  func calls() throws {
    let names = WorstCase.calls.map(\.name)
    #expect(names.sorted() == (try ServiceDescriptors().methods.keys.sorted()))
    let objects = Set(WorstCase.objects.map(\.name))
    for call in WorstCase.calls { #expect(objects.isSuperset(of: call.takes), "\(call.name)") }
  }

  @Test("D4 a client chooses the size of a field → the table says what connd keeps of it")
  func fields() throws {
    let fields = try ServiceDescriptors().largeFields
    #expect(Set(WorstCase.fields.keys).symmetricDifference(fields).sorted() == [])
  }

  @Test("D4 an object keeps fields of requests → its cost covers their maximum sizes")
  func keptFields() {
    var kept: [String: Int] = [:]
    for case .kept(let name, let bytes) in WorstCase.fields.values {
      kept[name, default: 0] += bytes
    }
    for (name, bytes) in kept {
      let object = WorstCase.objects.first { $0.name == name }
      #expect(bytes < (object?.cost ?? 0) / 2, "\(name)")
    }
  }

  @Test("D4 the table has a row → attacks multiply it, and a program measures its cost")
  func attacks() throws {
    let attacks = try Self.file("Tests/Oracles/storms/attacks.c")
    let rows = WorstCase.objects.map { ($0.name, $0.attacks) }
    for (name, own) in rows + WorstCase.calls.map({ ($0.name, $0.attacks) }) {
      #expect(!own.isEmpty, "\(name)")
      for attack in own { #expect(attacks.contains("{\"\(attack)\","), "\(name): \(attack)") }
    }
    let kinds = try Self.file("Tests/Oracles/storms/holdings.c")
    for kind in WorstCase.objects.flatMap(\.measures) {
      #expect(kinds.contains("{\"\(kind)\","), "\(kind)")
    }
  }

  @Test("docs/limits.md has the table")
  func documentation() throws {
    #expect(try Self.file("docs/limits.md").contains(WorstCase.table), "\(WorstCase.table)")
  }

  @Test("connd is killed every two seconds → systemd starts it again each time")
  func restarts() throws {
    let (interval, burst) = (
      try Self.setting("StartLimitIntervalSec", "s"), try Self.setting("StartLimitBurst", "")
    )
    // systemd refuses a start after `burst` starts within the interval (ratelimit_below).
    #expect(2 * burst > interval)
    #expect(try Self.file("systemd/connd.service").contains("\nRestart=on-failure\n"))
    // A connd that cannot start exits soon, and is not restarted forever.
    #expect(burst < interval * 2)
  }
}
