import ArgumentParser
import Connectivity

/// A condition, of a family or of the traffic that leaves by a link where one is named: what `is` asks and `wait` waits for.
struct Requirement: Hashable, Sendable {
  var condition: Condition
  var family: AddressFamily?
  var link: String?

  func holds(for status: Status) -> Bool {
    guard let link else {
      return self.condition.holds(for: self.family.map(status.restricted) ?? status)
    }
    return self.families.contains { family in
      status[family].leaves(by: link) && self.condition.holds(for: status.restricted(to: family))
    }
  }

  private var families: [AddressFamily] { self.family.map { [$0] } ?? AddressFamily.allCases }

  /// What keeps it from holding, in one line.
  func missing(in status: Status) -> String {
    let status = self.family.map(status.restricted) ?? status
    guard let link, status.category.isOnline,
      !self.families.contains(where: { status[$0].leaves(by: link) })
    else { return status.summary }
    return "traffic leaves by \(status.interface ?? "no link")"
  }
}

extension Requirement: CustomStringConvertible {
  /// `online by ipv6 via wlan0`
  var description: String {
    self.condition.description + (self.family.map { " by \($0.rawValue)" } ?? "")
      + (self.link.map { " via \($0)" } ?? "")
  }
}

extension Status {
  /// As it were if there were no other family.
  fileprivate func restricted(to family: AddressFamily) -> Status {
    let none = Path.unsatisfied(.noRoute)
    return Status(
      ipv4: family == .ipv4 ? self.ipv4 : none, ipv6: family == .ipv6 ? self.ipv6 : none,
      preferred: family)
  }
}

extension Path {
  /// Whether traffic flows by the link: the one on top, as a bridge or a tunnel, or one below it.
  fileprivate func leaves(by link: String) -> Bool {
    self.status == .satisfied && self.chain.contains { $0.name == link }
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
