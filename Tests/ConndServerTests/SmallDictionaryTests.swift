import Testing

@testable import ConndServer

@Suite("Small dictionary")
struct SmallDictionaryTests {
  @Test("It holds what a dictionary would, however many there are, and whatever was removed")
  func likeDictionary() {
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<200 {
      var (small, reference) = (SmallDictionary<Int, Int?>(), [Int: Int?]())
      for step in 0..<60 {
        let key = Int.random(in: 0..<20, using: &generator)
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: (small[key], reference[key]) = (nil, nil)
        // A value that is nothing is not a key that is not there.
        case 1: (small[key], reference[key]) = (.some(nil), .some(nil))
        default: (small[key], reference[key]) = (step, step)
        }
        for key in 0..<20 { #expect(small[key] == reference[key]) }
      }
      var all: [Int: Int?] = [:]
      small.forEach { all[$0] = .some($1) }
      #expect(all == reference)
    }
  }
}
