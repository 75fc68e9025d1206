/// Random numbers that a seed repeats, so that a failure can be reproduced: SplitMix64 (Steele,
/// Lea, Flood: Fast splittable pseudorandom number generators).
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  public init(seed: UInt64) { self.state = seed }

  public mutating func next() -> UInt64 {
    self.state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = self.state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  public mutating func number(_ range: ClosedRange<Int>) -> Int {
    Int.random(in: range, using: &self)
  }

  public mutating func oneIn(_ number: Int) -> Bool { self.number(1...number) == 1 }

  public mutating func pick<Choice: Collection>(_ overrides: Choice) -> Choice.Element {
    overrides[overrides.index(overrides.startIndex, offsetBy: self.number(0...overrides.count - 1))]
  }
}
