import Connectivity

/// How many of something there are, in all and of each user, and whether one more may come.
///
/// A value without I/O, so that no user can take what the others need, nor can one who is several: whoever comes gets a part of
/// what is left (as dbus-broker divides it), and some are kept for the system's own users.
struct Quota: Sendable {
  /// What stands in the way of one more.
  enum Refusal: Error, Hashable {
    /// There are so many already.
    case inAll(Int)
    /// What is left of so many is kept for others.
    case forOthers(of: Int)
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
    let own = self.count(of: user)
    // First what the user can do something about.
    guard own < self.ofOneUser else { throw .ofOneUser(self.ofOneUser) }
    guard Self.leavesEnough(user, own: own, of: self.count, inAll: self.inAll) else {
      throw self.count < self.inAll ? .forOthers(of: self.inAll) : .inAll(self.inAll)
    }
    self.count += 1
    self.counts[user, default: 0] += 1
  }

  /// One less, that was admitted before.
  mutating func release(_ user: UInt32) {
    guard let count = self.counts[user] else { return }
    self.count -= 1
    self.counts[user] = count > 1 ? count - 1 : nil
  }

  /// Whether one more of a user leaves enough for others: he has at most twice what is left then, without the share that is
  /// kept.
  ///
  /// - Parameter count: How many there are.
  static func leavesEnough(_ user: UInt32, own: Int, of count: Int, inAll: Int) -> Bool {
    if Self.isOfSystem(user) { return count < inAll }
    let left = inAll - inAll / 16 - count - 1
    return left >= 0 && own + 1 <= max(1, 2 * left)
  }

  /// root and the users of services, those that systemd makes up among them (systemd's "Users, Groups, UIDs and GIDs").
  private static func isOfSystem(_ user: UInt32) -> Bool {
    user < 1000 || (61_184...65_519).contains(user)
  }
}
