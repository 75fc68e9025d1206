import ArgumentParser
import Connectivity
import ConnectivityProtocol
import ConnectivitySession

/// A condition, of a family or of the traffic that leaves by a link where one is named: what `is` asks and `wait` waits for.
struct Requirement: Hashable, Sendable {
  var condition: Condition
  var family: AddressFamily?
  var link: String?
  /// The name that the link goes by in paths, if `link` is an alternative one.
  var firstName: String?

  /// The same, with the name that the link goes by now.
  ///
  /// - Parameter firstName: Looks for the link of a name or alternative name.
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

  /// The status as it were without the families that are not looked at, and without those whose traffic leaves elsewhere.
  private func concerned(_ status: ConnectivityStatus) -> ConnectivityStatus {
    func path(_ family: AddressFamily) -> Path {
      let path = status[family]
      let isElsewhere = (self.firstName ?? self.link).map { !path.leaves(by: $0) } ?? false
      return isElsewhere || self.family ?? family != family ? .unsatisfied(.noRoute) : path
    }
    return ConnectivityStatus(ipv4: path(.ipv4), ipv6: path(.ipv6), preferred: status.family)
  }

  /// What keeps it from holding, in one line.
  func missing(in status: ConnectivityStatus) -> String {
    let concerned = self.concerned(status)
    guard self.link != nil, concerned.category == .none,
      let interface = Requirement(condition: self.condition, family: self.family)
        .concerned(status).carryingInterface
    else { return concerned.summary }
    return "traffic leaves by \(interface)"
  }
}

extension Requirement: CustomStringConvertible {
  /// `online by ipv6 via wlan0`
  var description: String {
    self.condition.description + (self.family.map { " by \($0.rawValue)" } ?? "")
      + (self.link.map { " via \($0)" } ?? "")
  }
}

extension ConnectivityStatus {
  /// The link that traffic leaves by; `nil` where none does.
  fileprivate var carryingInterface: String? { self.category.isOnline ? self.interface : nil }
}

extension Path {
  /// Whether traffic flows by the link: the one on top, as a bridge or a tunnel, or one below it.
  fileprivate func leaves(by link: String) -> Bool {
    self.status == .satisfied && self.chain.contains { $0.name == link }
  }
}

extension Dialler {
  /// The name that a link goes by, whichever of its names is given; `nil` if connd knows none, or does not say.
  func firstName(ofLink name: String, at socket: String) async -> String? {
    let links = try? await self.withConnd(at: socket) { connd in
      try await connd.listLinks(.init(), options: .prompt).links
    }
    return links?.first { $0.alternativeNames.contains(name) }?.name
  }
}

extension CompletionKind {
  /// The names of the links that there are.
  static var linkNames: CompletionKind { .shellCommand("ls /sys/class/net") }
}

/// Of which traffic a condition is to hold.
struct TrafficOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp("Look at this family alone: ipv4 or ipv6.", valueName: "family"),
    completion: .list(AddressFamily.allCases.map(\.rawValue)), transform: Self.family)
  var family: AddressFamily?

  @Option(
    help: ArgumentHelp(
      "Look at what leaves by this link, or by one on top of it.", valueName: "link"),
    completion: .linkNames)
  var via: String?

  func validate() throws {
    guard self.via != "" else { throw ValidationError("--via needs a link's name") }
  }

  private static func family(_ text: String) throws -> AddressFamily {
    guard let family = AddressFamily(rawValue: text) else {
      throw ValidationError("it is ipv4 or ipv6")
    }
    return family
  }

  func requirement(_ condition: Condition) -> Requirement {
    Requirement(condition: condition, family: self.family, link: self.via)
  }
}
