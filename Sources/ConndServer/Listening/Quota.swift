/// How many of something there are, in all and of each user, and whether one more may come.
///
/// A value without I/O, so that no user can take what the others need but by being several.
struct Quota: Sendable {
  /// What stands in the way of one more.
  enum Refusal: Error, Hashable {
    /// There are so many already.
    case inAll(Int)
    /// This user has so many already.
    case ofOneUser(Int)
  }

  /// May become less than there are: then nobody is sent away, and nobody comes.
  var inAll: Int
  var ofOneUser: Int
  private(set) var count = 0
  private var counts: [UInt32: Int] = [:]

  init(inAll: Int, ofOneUser: Int) {
    self.inAll = inAll
    self.ofOneUser = ofOneUser
  }

  func count(of user: UInt32) -> Int { self.counts[user] ?? 0 }

  /// One more, of this user, until `release`.
  mutating func admit(_ user: UInt32) throws(Refusal) {
    // First what the user can do something about.
    guard self.count(of: user) < self.ofOneUser else { throw .ofOneUser(self.ofOneUser) }
    guard self.count < self.inAll else { throw .inAll(self.inAll) }
    self.count += 1
    self.counts[user, default: 0] += 1
  }

  /// One less, that was admitted before.
  mutating func release(_ user: UInt32) {
    guard let count = self.counts[user] else { return }
    self.count -= 1
    self.counts[user] = count > 1 ? count - 1 : nil
  }
}
