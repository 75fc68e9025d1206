import FoundationEssentials
import TestKit

/// An object of `connctl path --json`, and a path within a status.
struct PathReport: Decodable, Hashable {
  var destination: String?
  var status: String
  var reason: String?
  var interface: String?
  var chain: [String]
  var medium: String
  var source: String?
  var gateway: String?
  var table: UInt32?
  var expensive: Bool
  var constrained: Bool
  var validation: ValidationReport?
  var quality: String?
}

struct ValidationReport: Decodable, Hashable {
  var state: String
  var source: String?
  var portal: String?
}

/// The object of `connctl status --json`.
struct StatusReport: Decodable, Hashable {
  struct Flags: Decodable, Hashable {
    var reachable: Bool
    var connectionRequired: Bool
    var isWWAN: Bool
  }

  var generation: UInt64
  var category: String
  var threeWay: String
  var since: String
  var flags: Flags
  var interface: String?
  var medium: String
  var expensive: Bool
  var constrained: Bool
  var ipv4: PathReport
  var ipv6: PathReport
}

/// A line of `connctl watch --json` or `connctl history --json`.
struct EventReport: Decodable, Hashable {
  struct Cause: Decodable, Hashable {
    var trigger: String
    var change: String
    var message: String?
    var interface: String?
    var learntLate: Bool
  }

  var event: String
  var generation: UInt64
  var from: String?
  var to: String?
  var bounced: Bool?
  var cause: Cause?
  var status: StatusReport
}

/// The field that every line of `connctl watch --json` has.
struct EventKindReport: Decodable {
  var event: String
  var generation: UInt64
}

/// A line of `connctl watch --json` about DNS servers.
struct DNSReport: Decodable {
  struct Cause: Decodable {
    var change: String
  }
  var event: String
  var generation: UInt64
  var servers: [String]
  var search: [String]
  var cause: Cause
}

/// A line of `connctl watch --json` about an invalidation, or of `connctl guard --json`.
struct InvalidationReport: Decodable, Hashable {
  struct Scope: Decodable, Hashable {
    var interface: String?
    var family: String?
    var localAddresses: [String]?
    var destination: String?
  }

  var event: String
  var generation: UInt64
  var reason: String
  var severity: String
  var scope: Scope
  var cause: EventReport.Cause
  /// In `connctl guard --json`: the report of the connection's socket.
  var socket: SocketReport?
}

/// The report of a connection's socket.
struct SocketReport: Decodable, Hashable {
  var lastHeardMs: Int
  var timeouts: Int
}

/// The object of `connctl explain --json`, with the fields that the scenarios read.
struct ExplanationReport: Decodable {
  struct Rule: Decodable, Hashable {
    var priority: UInt32
    var table: UInt32
    var selector: String
  }

  struct Evidence: Decodable, Hashable {
    var source: String
    var value: String
    var medium: String
  }

  struct Link: Decodable {
    var name: String
    var kind: String?
    var state: String
    var medium: String
    var evidence: Evidence?
  }

  struct Cost: Decodable, Hashable {
    var metering: String
    var source: String
  }

  var path: PathReport
  var cost: Cost?
  var rules: [Rule]
  var routePrefix: String?
  var routePriority: UInt32?
  var links: [Link]
  var category: String
}

/// An element of the output of `ip -json route get`.
struct RouteReport: Decodable, Hashable {
  struct Via: Decodable, Hashable {
    var host: String
  }

  var dev: String?
  var prefsrc: String?
  var gateway: String?
  var via: Via?
}

/// Reads JSON.
func decode<Report: Decodable>(_ text: String, as type: Report.Type = Report.self) throws -> Report
{
  do {
    return try JSONDecoder().decode(type, from: Data(text.utf8))
  } catch {
    throw CommandError("\(error) in \(text)")
  }
}
