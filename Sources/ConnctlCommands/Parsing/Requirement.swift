import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol

/// A condition, optionally for one family or for traffic on one link: the subject of `is` and
/// `wait`.
struct Requirement: Hashable, Sendable {
  var condition: Condition
  var family: AddressFamily?
  var link: String?
  /// The link's name in paths, if `link` is an alternative name.
  var firstName: String?
  /// Whether no link has the name `link`.
  private(set) var isLinkMissing = false

  /// Returns the requirement with the link's current name.
  ///
  /// - Parameter search: Finds the link with a name or alternative name.
  func resolved(
    for status: ConnectivityStatus, _ search: (_ link: String) async -> LinkSearch
  ) async -> Requirement {
    guard let link, !self.holds(for: status) else { return self }
    var requirement = self
    switch await search(link) {
    case .found(let name): (requirement.firstName, requirement.isLinkMissing) = (name, false)
    case .missing: (requirement.firstName, requirement.isLinkMissing) = (nil, true)
    case .unknown: break
    }
    return requirement
  }

  func holds(for status: ConnectivityStatus) -> Bool {
    self.condition.holds(for: self.concerned(status))
  }

  /// Returns the status reduced to the requested family and link.
  private func concerned(_ status: ConnectivityStatus) -> ConnectivityStatus {
    func path(_ family: AddressFamily) -> KernelPath {
      let path = status[family]
      let isElsewhere = (self.firstName ?? self.link).map { !path.leaves(by: $0) } ?? false
      return isElsewhere || self.family ?? family != family ? .unsatisfied(.noRoute) : path
    }
    return ConnectivityStatus(ipv4: path(.ipv4), ipv6: path(.ipv6), preferred: status.family)
  }

  /// Returns why the requirement does not hold.
  func obstacle(in status: ConnectivityStatus) -> Condition.Obstacle {
    if self.isLinkMissing, let link {
      return Condition.Obstacle(text: "the link “\(link)” does not exist")
    }
    let concerned = self.concerned(status)
    guard self.link != nil, concerned.category == .offline,
      let interface = Requirement(condition: self.condition, family: self.family)
        .concerned(status).carryingInterface
    else { return self.condition.obstacle(in: concerned) }
    return Condition.Obstacle(text: "traffic uses \(interface)")
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

extension KernelPath {
  /// Returns whether traffic uses the link: as the top of the stack, such as a bridge or a tunnel,
  /// or below it.
  fileprivate func leaves(by link: String) -> Bool {
    self.status == .satisfied && self.chain.contains { $0.name == link }
  }
}

extension Connector {
  /// Finds the link with a name or alternative name.
  func link(named name: String, at socket: String) async -> LinkSearch {
    let links = try? await self.withServices(at: socket) { try await $0.links() }
    guard let links else { return .unknown }
    let link = links.first { $0.isNamed(name) }
    return link.map { .found($0.name) } ?? .missing
  }
}

/// The result of a search for a link.
enum LinkSearch: Hashable, Sendable {
  /// The link has this primary name.
  case found(String)
  case missing
  /// connd did not answer.
  case unknown
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
