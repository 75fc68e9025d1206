import Connectivity
import ConnectivityProtocol

/// connd's state and counters as OpenMetrics, or in Prometheus' older text format.
///
/// All metrics are gauges or counters, because the formats share no other types. node_exporter
/// reads OpenMetrics as the older format, with counters as untyped metrics.
struct Metrics {
  enum Format {
    /// OpenMetrics 1.0.0.
    case openMetrics
    /// Prometheus' text format 0.0.4.
    case prometheus

    var contentType: String {
      switch self {
      case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
      case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
      }
    }
  }

  private let format: Format
  private var lines: [String] = []

  init(
    _ snapshot: ConnectivitySnapshot, _ statistics: [Connectivity_V1_Statistic], since: WallTime,
    version: String = "", as format: Format = .openMetrics
  ) {
    self.format = format
    let status = snapshot.status
    self.gauge(
      "category", "Whether this is the category of the machine's traffic.",
      NetworkCategory.allCases.map {
        ([("category", $0.rawValue)], $0 == status.category ? "1" : "0")
      })
    let flags = status.flags
    self.gauge(
      "flag", "The reachability flags.",
      [
        ("reachable", flags.reachable), ("connectionRequired", flags.connectionRequired),
        ("isWWAN", flags.isWWAN),
      ].map { ([("flag", $0)], $1 ? "1" : "0") })
    self.gauge(
      "path_satisfied", "Whether the default path of the address family carries traffic.",
      AddressFamily.allCases.map {
        ([("family", $0.rawValue)], status[$0].status == .satisfied ? "1" : "0")
      })
    self.gauge(
      "path_info", "The default path of the address family, while it is satisfied.",
      AddressFamily.allCases.compactMap { Self.pathInfo(status[$0], $0) })
    self.gauge(
      "metered", "Whether the path costs money. Absent while that is unknown.",
      status.path.isExpensive.map { [([], $0 ? "1" : "0")] } ?? [])
    self.gauge(
      "constrained", "Whether programs should save data on the path.",
      [([], status.isConstrained ? "1" : "0")])
    self.gauge(
      "portal", "Whether the path's network has a captive portal, perhaps after the login.",
      [([], status.category.isOnline && status.path.validation.portal != nil ? "1" : "0")])
    self.gauge(
      "build_info", "The version of the running connd.",
      version.isEmpty ? [] : [([("version", version)], "1")])
    self.gauge(
      "generation", "The generation of the last published change.",
      [([], String(snapshot.generation))])
    self.gauge(
      "category_change_time_seconds", "The Unix time of the last transition.",
      [([], snapshot.since.secondsText)], unit: "seconds")
    self.gauge(
      "start_time_seconds", "The Unix time of connd's start.", [([], since.secondsText)],
      unit: "seconds")
    for (name, figures) in Self.grouped(statistics) {
      let samples = figures.map { figure in
        (figure.kind.isEmpty ? [] : [(Self.label(of: name), figure.kind)], String(figure.value))
      }
      let help = Self.help[name] ?? "See “stats” in connctl-json(5)."
      if figures.contains(where: \.present) {
        self.gauge(name, help, samples)
      } else {
        self.family(name, "counter", help, samples, suffix: "_total")
      }
    }
    if format == .openMetrics { self.lines.append("# EOF") }
  }

  var text: String { self.lines.map { $0 + "\n" }.joined() }

  /// Returns the statistics by name, in the order of their first occurrence.
  private static func grouped(
    _ statistics: [Connectivity_V1_Statistic]
  ) -> [(String, [Connectivity_V1_Statistic])] {
    var names: [String] = []
    let groups = Dictionary(grouping: statistics.filter { $0.name.isMetricName }, by: \.name)
    for statistic in statistics
    where statistic.name.isMetricName && !names.contains(statistic.name) {
      names.append(statistic.name)
    }
    return names.map { ($0, groups[$0] ?? []) }
  }

  private typealias Sample = (labels: [(name: String, value: String)], value: String)

  private static func pathInfo(_ path: KernelPath, _ family: AddressFamily) -> Sample? {
    guard path.status == .satisfied, let interface = path.interface else { return nil }
    let metered = path.isExpensive.map { $0 ? "yes" : "no" } ?? "unknown"
    return (
      [
        ("family", family.rawValue), ("interface", interface), ("medium", path.medium.rawValue),
        ("metered", metered), ("validation", path.validation.state.rawValue),
      ], "1"
    )
  }

  private mutating func gauge(
    _ name: String, _ help: String, _ samples: [Sample], unit: String? = nil
  ) {
    self.family(name, "gauge", help, samples, unit: unit)
  }

  private mutating func family(
    _ name: String, _ type: String, _ help: String, _ samples: [Sample], suffix: String = "",
    unit: String? = nil
  ) {
    guard !samples.isEmpty else { return }
    // OpenMetrics names a counter without the suffix of its samples.
    let family = self.format == .openMetrics ? name : name + suffix
    self.lines.append("# HELP connd_\(family) \(help.escaped)")
    self.lines.append("# TYPE connd_\(family) \(type)")
    if let unit, self.format == .openMetrics {
      self.lines.append("# UNIT connd_\(family) \(unit)")
    }
    for (labels, value) in samples {
      let pairs = labels.map { "\($0.name)=\"\($0.value.escaped)\"" }.joined(separator: ",")
      self.lines.append(
        "connd_\(name)\(suffix)\(pairs.isEmpty ? "" : "{\(pairs)}") \(value)")
    }
  }

  /// Returns the name of the label for the kinds of a counter.
  private static func label(of name: String) -> String {
    switch name {
    case "attempts": "outcome"
    case "published": "event"
    case "invalidations", "flow_invalidations", "refutations": "reason"
    case "limits_hit": "limit"
    default: "kind"
    }
  }

  static let help = [
    "attempts": "Clients' reports about attempts beside another link.",
    "batches": "Batches of kernel messages.",
    "bounces": "Transitions for a path that went and came back.",
    "events": "Kernel messages that passed connd's filter.",
    "faults": "Broken invariants of connd itself.",
    "flow_invalidations": "Invalidations of guarded flows.",
    "flow_paths": "Path changes that were reported to guarded flows.",
    "found": "Flows that their own sockets proved dead.",
    "gaps": "Times that a subscriber missed changes.",
    "guarded_flows": "Flows that connd guards now.",
    "guarding_clients": "Clients that guard flows now.",
    "history": "Changes in the history now.",
    "invalidations": "Invalidations of the default paths.",
    "kernel_losses": "Times that the kernel became unavailable.",
    "limits_hit": "Rejected clients and requests.",
    "malformed": "Malformed kernel messages.",
    "overruns": "Times that the kernel dropped messages.",
    "published": "Published changes.",
    "readings": "Readings of the default paths.",
    "refutations": "New connections that connd declared dead.",
    "resynchronisations": "Readings of everything.",
    "signals": "Wi-Fi drivers' reports about signals and lost frames.",
    "spared": "Flows that connd kept because their sockets received data.",
    "subscribers": "Subscribers now.",
    "subscriptions": "Subscriptions since the start.",
    "suppressed": "Readings without a change.",
    "watched_paths": "Paths that clients follow now.",
  ]
}

extension String {
  /// Whether a metric can have this name.
  fileprivate var isMetricName: Bool {
    !self.isEmpty
      && self.utf8.allSatisfy {
        (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == UInt8(ascii: "_")
      }
  }

  /// The text of a label or of help, escaped.
  fileprivate var escaped: String {
    self.reduce(into: "") { text, character in
      switch character {
      case "\\": text += #"\\"#
      case "\"": text += #"\""#
      case "\n": text += #"\n"#
      default: text.append(character)
      }
    }
  }
}

extension WallTime {
  /// The Unix time in seconds: `1795224300.123456`.
  fileprivate var secondsText: String {
    let fraction = String(self.microseconds.magnitude % 1_000_000)
    let sign = self.microseconds < 0 ? "-" : ""
    return
      "\(sign)\(self.microseconds.magnitude / 1_000_000).\(String(repeating: "0", count: 6 - fraction.count))\(fraction)"
  }
}
