package import Connectivity

/// A client's report about an attempt to connect by a link.
package struct LinkAttempt: Hashable, Sendable {
  package var outcome: AttemptOutcome
  package var host: IPAddress
  package var user: UInt32
  /// The number of the user's account. All users that one person may act as share an account.
  package var person: UInt32

  /// - Parameter person: The default is `user`, for a person with a single user.
  package init(
    _ outcome: AttemptOutcome, to host: IPAddress, by user: UInt32, of person: UInt32? = nil
  ) {
    self.outcome = outcome
    self.host = host
    self.user = user
    self.person = person ?? user
  }
}

/// The state of the connections on a link, as connd examined them. Each person counts once, because
/// one person may open any number of connections.
package struct SocketCensus: Hashable, Sendable {
  /// The minimum number of silent hosts that is evidence against the link. Several hosts are
  /// unlikely to be dead at the same time.
  static let minHosts = 2
  private static let minTimeouts = 3
  private static let heardWithin = Duration.milliseconds(1500)

  /// The connections of one person.
  private struct Connections: Hashable {
    /// The hosts of the silent connections.
    var silentHosts: Set<IPAddress> = []
    var silent = 0
    var heard = 0

    var areSilent: Bool { self.silent > self.heard }
  }

  private var persons: [UInt32: Connections] = [:]

  package init() {}

  /// Counts a connection of a person: as silent after three consecutive timeouts, or as heard if
  /// its peer was heard within 1.5 s. Timeouts without data in flight prove nothing about the link:
  /// this machine does not send the data, or the peer has closed its window.
  package mutating func count(_ report: SocketReport, of host: IPAddress, by person: UInt32) {
    if report.sent > report.progress, report.hasUnacknowledgedData,
      report.timeouts >= Self.minTimeouts
    {
      self.persons[person, default: Connections()].silent += 1
      self.persons[person]?.silentHosts.insert(host)
    } else if report.silence <= Self.heardWithin {
      self.persons[person, default: Connections()].heard += 1
    }
  }

  private var silentPersons: [UInt32: Connections] { self.persons.filter(\.value.areSilent) }

  /// Two of the persons with silent connections. Two are enough, because at least one of them is
  /// not the person with the limp.
  var witnesses: Set<UInt32> { Set(self.silentPersons.keys.sorted().prefix(2)) }
  /// Whether more than half of the persons have silent connections.
  var isTroubled: Bool { 2 * self.silentPersons.count > self.persons.count }
  /// Whether the link, rather than a single dead host, is the cause of the silence.
  var isOfLink: Bool {
    let hosts = Set(self.silentPersons.values.flatMap(\.silentHosts))
    return self.isTroubled && hosts.count >= Self.minHosts
  }
}
