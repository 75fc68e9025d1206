/// Random numbers that a seed repeats (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
struct Random: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { self.state = seed }

  mutating func next() -> UInt64 {
    self.state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = self.state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }

  mutating func oneIn(_ number: Int) -> Bool { self.number(1...number) == 1 }

  mutating func pick<Choice: Collection>(_ choices: Choice) -> Choice.Element {
    choices[choices.index(choices.startIndex, offsetBy: self.number(0...choices.count - 1))]
  }
}
