import Glibc
import LinuxSupport
import Synchronization

/// Finds the account of a uid. Safe to use from any thread.
///
/// A uid that `/etc/subuid` assigns to a person belongs to this person's account. Other uids
/// outside systemd's ranges for people and services share one account, unless they have a logind
/// session, such as users of a directory service.
///
/// Implements rule D4.
final class Accounts: Sendable {
  /// The paths of the files that are read.
  struct Files {
    var subordinateUsers = "/etc/subuid"
    var users = "/etc/passwd"
    var sessions = "/run/systemd/users"
  }

  private struct Cache {
    var versions: [FileVersion?] = []
    var users = SubordinateUsers()
  }

  private let files: Files
  private let cache = Mutex(Cache())

  init(_ files: Files = Files()) {
    self.files = files
  }

  func account(ofUID uid: UInt32) -> Account {
    let account = Account(ofUID: uid)
    // Service uids are not counted for an owner. Neither are uids of root's ranges, because root
    // lends them to containers that it does not trust.
    guard account.pot == .people else { return account }
    let owner = self.subordinateUsers.owner(of: uid).map { Account(number: $0) }
    if let owner, owner.pot == .people { return owner }
    guard account == .unknown, access("\(self.files.sessions)/\(uid)", F_OK) == 0 else {
      return account
    }
    return Account(number: uid)
  }

  private var subordinateUsers: SubordinateUsers {
    let paths = [self.files.subordinateUsers, self.files.users]
    let versions = paths.map { FileVersion(of: $0) }
    return self.cache.withLock { cache in
      guard cache.versions != versions else { return cache.users }
      let texts = paths.map { (try? contents(of: $0, max: 4 << 20)) ?? [] }
      cache = Cache(
        versions: versions, users: SubordinateUsers(texts[0], passwd: texts[1]))
      return cache.users
    }
  }
}

/// The uids that users may act as in addition to their own: subuid(5).
struct SubordinateUsers: Sendable {
  private struct Range {
    var uids: ClosedRange<UInt32>
    var owner: UInt32
    /// The greatest uid of this range and all before it.
    var lastUID: UInt32 = 0
  }

  /// Sorted by their first uid.
  private var ranges: [Range] = []

  init() {}

  /// Parses the files. Skips malformed lines, and lines of users who are not in passwd(5).
  init(_ subuid: [UInt8], passwd: [UInt8]) {
    let lines = Self.fields(of: subuid)
    guard !lines.isEmpty else { return }
    var users: [ArraySlice<UInt8>: UInt32] = [:]
    for fields in Self.fields(of: passwd) where fields.count > 2 {
      if let uid = Self.number(fields[2]) { users[fields[0]] = uid }
    }
    for fields in lines where fields.count == 3 {
      guard let owner = Self.number(fields[0]) ?? users[fields[0]],
        let first = Self.number(fields[1]), let count = Self.number(fields[2]), count > 0
      else { continue }
      let last = first.addingReportingOverflow(count - 1)
      guard !last.overflow else { continue }
      self.ranges.append(Range(uids: first...last.partialValue, owner: owner))
    }
    self.ranges.sort { $0.uids.lowerBound < $1.uids.lowerBound }
    var last: UInt32 = 0
    for place in self.ranges.indices {
      last = max(last, self.ranges[place].uids.upperBound)
      self.ranges[place].lastUID = last
    }
  }

  /// Returns the user who may act as this uid, or `nil` if no user may. If several may, the
  /// range with the greatest first uid counts.
  func owner(of uid: UInt32) -> UInt32? {
    var (low, high) = (0, self.ranges.count)
    while low < high {
      let middle = (low + high) / 2
      if self.ranges[middle].uids.lowerBound <= uid { low = middle + 1 } else { high = middle }
    }
    // Ranges seldom overlap, so the first one usually ends the search.
    for range in self.ranges[..<low].reversed() {
      if range.uids.contains(uid) { return range.owner }
      if range.lastUID < uid { return nil }
    }
    return nil
  }

  private static func fields(of text: [UInt8]) -> [[ArraySlice<UInt8>]] {
    text.split(separator: UInt8(ascii: "\n")).map {
      $0.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
    }
  }

  private static func number(_ text: ArraySlice<UInt8>) -> UInt32? {
    UInt32(String(decoding: text, as: UTF8.self))
  }
}
