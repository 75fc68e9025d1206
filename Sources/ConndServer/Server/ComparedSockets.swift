import Connectivity
import ConnectivityRules
import LinuxSupport
import Netlink

/// The TCP sockets of two samples, bounded for each person, because a server may have millions.
///
/// Implements rule D4.
struct ComparedSockets {
  /// The maximum number of sockets that are compared.
  static let maxSockets = 4096
  /// The maximum number of sockets in question.
  static let maxOfSubject = 2048
  /// The maximum number of a person's sockets that only serve as comparison.
  static let maxOfPerson = 512

  private let subject: DiagnosisSubject
  private let account: (UInt32) -> Account
  private var persons: [UInt32: UInt32] = [:]
  private var first: [UInt64: SocketSample.TCPState] = [:]
  private var found: [SocketFinding] = []
  private var listening: Set<UInt16> = []
  private var counts = Counts()
  /// The number of quiet sockets in question. They are not compared, because a server may have
  /// many.
  private(set) var quiet = 0
  /// Whether there were more sockets.
  private(set) var isIncomplete = false

  private struct Counts {
    var ofSubject = 0
    var ofPersons: [UInt32: Int] = [:]
    var all = 0

    mutating func add(_ person: UInt32, isSubject: Bool) -> Bool {
      let isFull =
        isSubject
        ? self.ofSubject >= maxOfSubject : self.ofPersons[person, default: 0] >= maxOfPerson
      guard !isFull, self.all < maxSockets else { return false }
      if isSubject { self.ofSubject += 1 } else { self.ofPersons[person, default: 0] += 1 }
      self.all += 1
      return true
    }
  }

  /// - Parameter account: Returns the account of a user.
  init(_ subject: DiagnosisSubject, account: @escaping (UInt32) -> Account) {
    (self.subject, self.account) = (subject, account)
  }

  /// The number of sockets that are kept.
  var count: Int { self.first.count + self.found.count }

  /// The sockets of both samples, and the new sockets of the second one.
  var findings: [SocketFinding] {
    self.found.map { finding in
      var finding = finding
      finding.isIncoming = self.listening.contains(finding.sourcePort)
      return finding
    }
  }

  mutating func addFirst(_ part: SampleDump.Part) {
    self.listening.formUnion(part.listening)
    for sample in part.samples where !sample.host.isLoopback && !sample.isQuiet {
      let isSubject = self.subject.contains(sample)
      guard self.counts.add(self.person(of: sample.user), isSubject: isSubject) else {
        self.isIncomplete = true
        continue
      }
      self.first[sample.cookie] = sample.tcp
    }
  }

  mutating func addSecond(_ part: SampleDump.Part) {
    self.listening.formUnion(part.listening)
    for sample in part.samples where !sample.host.isLoopback {
      let (isSubject, person) = (self.subject.contains(sample), self.person(of: sample.user))
      let before = self.first.removeValue(forKey: sample.cookie)
      if before == nil {
        if sample.isQuiet {
          if isSubject, sample.inode != 0 { self.quiet += 1 }
          continue
        }
        guard self.counts.add(person, isSubject: isSubject) else {
          self.isIncomplete = true
          continue
        }
      }
      if let finding = SocketFinding(before, sample, person: person, isSubject: isSubject) {
        self.found.append(finding)
      }
    }
  }

  /// Returns the number of a user's account, or the user itself if its owner is unknown. It is
  /// remembered, because finding it reads files.
  private mutating func person(of user: UInt32) -> UInt32 {
    if let person = self.persons[user] { return person }
    let account = self.account(user)
    let person = account == .unknown ? user : account.number
    if self.persons.count < Self.maxSockets { self.persons[user] = person }
    return person
  }
}
