import Testing

@testable import ConnectivityClient

/// The lookups of one attempt to connect.
@Suite("LookupMachine")
struct LookupMachineTests {
  private struct Failure: Error { var name: String }

  /// Plays inputs to a machine, and returns its actions: `begin`, `changed`, `settled`, `giveUp`,
  /// `ok 1` and `fail 1` for the end of a lookup.
  private static func play(_ inputs: String...) -> [String] {
    var machine = LookupMachine<String>()
    return inputs.map { input in
      let words = input.split(separator: " ").map(String.init)
      let id = words.last.flatMap(Int.init) ?? 0
      let actions =
        switch words[0] {
        case "begin": machine.handle(.begin(isSettling: words.count > 1))
        case "changed": machine.handle(.changed)
        case "settled": machine.handle(.settled)
        case "ok": machine.handle(.ended(id, .success("answer \(id)")))
        case "fail": machine.handle(.ended(id, .failure(Failure(name: "failure \(id)"))))
        default: machine.handle(.giveUp(Failure(name: input)))
        }
      return actions.map { action in
        switch action {
        case .start(let id): "start \(id)"
        case .settle: "settle"
        case .finish(.success(let answer)): answer
        case .finish(.failure(let error)): (error as? Failure)?.name ?? "\(error)"
        }
      }.joined(separator: ", ")
    }
  }

  @Test("C5 no change → the first lookup's answer or failure counts")
  func one() {
    #expect(Self.play("begin", "ok 1", "changed", "giveUp") == ["start 1", "answer 1", "", ""])
    #expect(Self.play("begin", "fail 1", "changed") == ["start 1", "failure 1", ""])
  }

  @Test("C5 a search begins a moment after a change → a failure counts once the network is settled")
  func late() {
    #expect(
      Self.play("begin late", "fail 1", "settled") == ["start 1", "", "failure 1"])
    #expect(
      Self.play("begin late", "fail 1", "changed", "ok 2")
        == ["start 1", "", "start 2, settle", "answer 2"])
    #expect(Self.play("begin late", "settled", "fail 1") == ["start 1", "", "failure 1"])
  }

  @Test("C5 a change → another lookup starts beside the first, and the first answer counts")
  func second() {
    #expect(
      Self.play("begin", "changed", "ok 2", "fail 1", "settled")
        == ["start 1", "start 2, settle", "answer 2", "", ""])
    #expect(
      Self.play("begin", "changed", "ok 1", "ok 2") == [
        "start 1", "start 2, settle", "answer 1", "",
      ])
  }

  @Test("C5 a lookup that started before a change fails → the search goes on")
  func outdated() {
    #expect(
      Self.play("begin", "changed", "fail 1", "settled", "ok 2")
        == ["start 1", "start 2, settle", "", "", "answer 2"])
    #expect(
      Self.play("begin", "changed", "changed", "settled", "fail 2", "fail 1", "fail 3")
        == ["start 1", "start 2, settle", "start 3, settle", "", "", "", "failure 3"])
  }

  @Test("C5 a lookup that started after the last change fails → the search fails")
  func current() {
    #expect(
      Self.play("begin", "changed", "settled", "fail 2")
        == ["start 1", "start 2, settle", "", "failure 2"])
  }

  @Test("C5 a lookup fails right after a change → it counts unless another change follows")
  func settling() {
    #expect(
      Self.play("begin", "changed", "fail 2", "settled", "ok 1")
        == ["start 1", "start 2, settle", "", "failure 2", ""])
    #expect(
      Self.play("begin", "changed", "fail 2", "changed", "settled", "ok 3")
        == ["start 1", "start 2, settle", "", "start 3, settle", "", "answer 3"])
    #expect(
      Self.play("begin", "changed", "fail 2", "ok 1")
        == ["start 1", "start 2, settle", "", "answer 1"])
  }

  @Test("C4 C5 a change after the search has failed → it concerns the attempt")
  func over() {
    var machine = LookupMachine<Int>()
    #expect(!machine.hasBegun)
    _ = machine.handle(.begin(isSettling: false))
    _ = machine.handle(.ended(1, .failure(CancellationError())))
    #expect(machine.hasBegun && !machine.isSearching)
  }

  @Test("C5 a change before the search begins → one lookup")
  func early() {
    #expect(Self.play("changed", "begin", "fail 1") == ["", "start 1", "failure 1"])
  }

  @Test("C5 the search is given up → it fails once, and nothing starts afterwards")
  func givenUp() {
    #expect(
      Self.play("begin", "giveUp", "changed", "ok 1", "giveUp") == [
        "start 1", "giveUp", "", "", "",
      ]
    )
    #expect(Self.play("giveUp", "begin") == ["giveUp", ""])
  }

  @Test("C5 more changes than lookups allowed → the next starts when one fails")
  func limited() {
    var machine = LookupMachine<String>()
    func starts(_ actions: [LookupMachine<String>.Action]) -> Int {
      actions.count { if case .start = $0 { true } else { false } }
    }
    var started = starts(machine.handle(.begin(isSettling: false)))
    for _ in 0..<20 { started += starts(machine.handle(.changed)) }
    #expect(started == LookupMachine<String>.maxLookups)
    #expect(machine.handle(.settled).isEmpty)
    let next = machine.handle(.ended(1, .failure(Failure(name: "1"))))
    guard case .start(9)? = next.first else {
      Issue.record("\(next)")
      return
    }
    #expect(machine.handle(.ended(2, .failure(Failure(name: "2")))).isEmpty)
    guard case .finish(.failure)? = machine.handle(.ended(9, .failure(Failure(name: "9")))).first
    else {
      Issue.record("a current failure does not count")
      return
    }
  }
}
