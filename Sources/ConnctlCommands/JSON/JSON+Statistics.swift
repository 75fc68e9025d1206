import Connectivity
import ConnectivityJSON
import ConnectivityProtocol

extension JSON {
  /// Returns the object of `connctl stats --json`.
  static func statistics(
    _ statistics: [Connectivity_V1_Statistic], version: String, since: WallTime
  ) -> JSON {
    var pairs = [
      Pair(key: "version", value: version.isEmpty ? .null : .string(version)),
      Pair(key: "since", value: .string(since.description)),
    ]
    // Scripts find these keys even before the first occurrence of a kind.
    var kinds: [String: [Pair]] = [
      "published": [], "invalidations": [], "flowInvalidations": [], "limitsHit": [],
      "refutations": [],
    ]
    for statistic in statistics {
      let name = statistic.name.inCamelCase
      if statistic.kind.isEmpty {
        pairs.append(Pair(key: name, value: .number(statistic.value)))
      } else {
        kinds[name, default: []].append(
          Pair(key: statistic.kind, value: .number(statistic.value)))
      }
    }
    return .object(
      pairs + kinds.sorted { $0.key < $1.key }.map { Pair(key: $0.key, value: .object($0.value)) })
  }
}

extension String {
  /// The text in camel case: `kernel_losses` becomes `kernelLosses`.
  fileprivate var inCamelCase: String {
    let words = self.split(separator: "_")
    return words.prefix(1).joined()
      + words.dropFirst().map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
  }
}
