import Testing

@testable import ConnectivityClient

@Suite("Progress of an attempt")
struct AttemptProgressTests {
  @Test("C5 a name's last addresses fail → tried again after a second, or after a change")
  func formerAddresses() {
    var progress = AttemptProgress()
    let start = ContinuousClock.now
    func begins(after seconds: Double, changed: Double?, ends: Bool = true) -> Bool {
      let change = changed.map { start + .seconds($0) }
      guard progress.begin([], change, at: start + .seconds(seconds)) else { return false }
      if ends { progress.ended([]) }
      return true
    }
    #expect(begins(after: 0.25, changed: 0))
    #expect(!begins(after: 0.5, changed: 0))
    #expect(!begins(after: 1.2, changed: nil))
    #expect(begins(after: 1.25, changed: 0))
    #expect(begins(after: 1.5, changed: 1.4))
    #expect(!begins(after: 1.75, changed: 1.4))
    #expect(begins(after: 9, changed: nil, ends: false))
    // Not beside another race.
    #expect(!begins(after: 11, changed: 10))
  }
}
