import ArgumentParser
import Connectivity
import ConnectivityProtocol
import ConnectivityMonitor

/// A condition, optionally for one family or for traffic on one link: the subject of `is` and
/// `wait`.
struct Requirement: Hashable, Sendable {
  var condition: Condition
  var family: AddressFamily?
  var link: String?
  /// The link's name in paths, if `link` is an alternative name.
  var firstName: String?

  /// Returns the requirement with the link's current name.
  ///
  /// - Parameter firstName: Finds the link with a name or alternative name.
  func resolved(
    for status: ConnectivityStatus, _ firstName: (_ link: String) async -> String?
  ) async -> Requirement {
    guard let link, !self.holds(for: status) else { return self }
    var requirement = self
    requirement.firstName = await firstName(link)
    return requirement
  }

  func holds(for status: ConnectivityStatus) -> Bool {
    self.condition.holds(for: self.concerned(status))
  }

  /// Returns the status reduced to the requested family and link.
  private func concerned(_ status: ConnectivityStatus) -> ConnectivityStatus {
    func path(_ family: AddressFamily) -> Path {
      let path = status[family]
      let isElsewhere = (self.firstName ?? self.link).map { !path.leaves(by: $0) } ?? false
      return isElsewhere || self.family ?? family != family ? .unsatisfied(.noRoute) : path
    }
    return ConnectivityStatus(ipv4: path(.ipv4), ipv6: path(.ipv6), preferred: status.family)
  }

  /// Returns in one line why the requirement does not hold.
  func missing(in status: ConnectivityStatus) -> String {
    let concerned = self.concerned(status)
    guard self.link != nil, concerned.category == .none,
      let interface = Requirement(condition: self.condition, family: self.family)
        .concerned(status).carryingInterface
    else { return self.condition.missing(in: concerned) }
    return "traffic uses \(interface)"
  }
}

extension Requirement: CustomStringConvertible {
  /// The text `online by ipv6 via wlan0`.
  var description: String {
    self.condition.description + (self.family.map { " by \($0.rawValue)" } ?? "")
      + (self.link.map { " via \($0)" } ?? "")
  }
}

extension ConnectivityStatus {
  /// The link that traffic uses, or `nil` if no traffic flows.
  fileprivate var carryingInterface: String? { self.category.isOnline ? self.interface : nil }
}

extension Path {
  /// Returns whether traffic uses the link: as the top of the stack, such as a bridge or a tunnel,
  /// or below it.
  fileprivate func leaves(by link: String) -> Bool {
    self.status == .satisfied && self.chain.contains { $0.name == link }
  }
}

extension Connector {
  /// Returns the primary name of a link, given any of its names, or `nil` if connd knows none or
  /// does not answer.
  func firstName(ofLink name: String, at socket: String) async -> String? {
    let links = try? await self.withServices(at: socket) { try await $0.links() }
    return links?.first { $0.alternativeNames.contains(name) }?.name
  }
}

extension CompletionKind {
  /// The names of the existing links.
  static var linkNames: CompletionKind { .shellCommand("ls /sys/class/net") }
}

/// The traffic for which a condition must hold.
struct TrafficOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp("Check only this family: ipv4 or ipv6.", valueName: "family"),
    completion: .list(AddressFamily.allCases.map(\.rawValue)), transform: Self.family)
  var family: AddressFamily?

  @Option(
    help: ArgumentHelp(
      "Check only traffic over this link, or over one on top of it.", valueName: "link"),
    completion: .linkNames)
  var via: String?

  func validate() throws {
    guard self.via != "" else { throw ValidationError("--via needs a link's name") }
  }

  private static func family(_ text: String) throws -> AddressFamily {
    guard let family = AddressFamily(rawValue: text) else {
      throw ValidationError("expected ipv4 or ipv6")
    }
    return family
  }

  func requirement(_ condition: Condition) -> Requirement {
    Requirement(condition: condition, family: self.family, link: self.via)
  }
}
