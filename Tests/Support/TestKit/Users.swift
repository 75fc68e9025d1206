import Glibc

/// Whether the tests may act as other users than root. In a user namespace only some users exist,
/// often a single one.
public enum Users {
  /// Whether processes may run as users from 1 to 65534, and rules may name them. Always true with
  /// CI=true: such tests then run and fail instead of being skipped.
  public static let areMany: Bool = {
    if getenv("CI").map({ String(cString: $0) }) == "true" { return true }
    // Each line: the first id inside, the first outside, and the count.
    guard let map = try? Command.run(["cat", "/proc/self/uid_map"]) else { return false }
    return map.split(separator: "\n").contains { line in
      let numbers = line.split(separator: " ").compactMap { UInt64($0) }
      return numbers.count == 3 && numbers[0] <= 1 && numbers[0] + numbers[2] > 65_534
    }
  }()
}
