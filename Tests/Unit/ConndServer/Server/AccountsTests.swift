import Glibc
import LinuxSupport
import TestKit
import Testing

@testable import ConndServer

@Suite("Accounts")
struct AccountsTests {
  /// Accounts read from test files. `sessions` are the uids that have a logind session.
  private static func accounts(
    _ subuid: String, passwd: String = "", sessions: [UInt32] = [], in directory: TemporaryDirectory
  ) throws -> Accounts {
    var files = Accounts.Files()
    files.subordinateUsers = "\(directory.path)/subuid"
    files.users = "\(directory.path)/passwd"
    files.sessions = directory.path
    try Self.write(subuid, to: files.subordinateUsers)
    try Self.write(passwd, to: files.users)
    for uid in sessions { try Self.write("", to: "\(directory.path)/\(uid)") }
    return Accounts(files)
  }

  private static func write(_ text: String, to path: String) throws {
    let file = try #require(fopen(path, "w"))
    defer { fclose(file) }
    fputs(text, file)
  }

  @Test(
    "D4 each uid range has its account and pot",
    arguments: [
      (0, 0, .root), (1, 1, .services), (999, 999, .services), (1000, 1000, .people),
      (60_000, 60_000, .people),
      // The last of systemd-homed's range, then unassigned uids.
      (60_513, 60_513, .people), (60_514, .max, .people), (61_183, .max, .people),
      (61_184, 61_184, .services), (65_519, 65_519, .services), (65_520, .max, .people),
      (65_534, .max, .people), (100_000, .max, .people), (524_288, .max, .people),
    ] as [(UInt32, UInt32, Account.Pot)])
  func ranges(uid: UInt32, number: UInt32, pot: Account.Pot) {
    let account = Account(ofUID: uid)
    #expect(account.number == number && account.pot == pot)
  }

  @Test(
    "D4 ranges of subordinate uids overlap → a uid has an owner if any range contains it",
    arguments: [
      (100_000, 1000), (119_999, 1000), (120_000, 1001), (120_010, 1001), (120_011, 1000),
      (165_535, 1000), (165_536, nil), (170_000, 1002), (99_999, nil),
    ] as [(UInt32, UInt32?)])
  func overlaps(uid: UInt32, owner: UInt32?) {
    let text = "1000:100000:65536\n1001:120000:11\n1002:170000:1\n"
    #expect(SubordinateUsers(Array(text.utf8), passwd: []).owner(of: uid) == owner)
  }

  @Test(
    "D4 a subordinate uid counts as its owner; if the owner is not a person, all share one account",
    arguments: [
      (100_000, 1000), (165_535, 1000), (165_536, 1001), (231_071, 1001), (231_072, .max),
      (300_000, 1002), (300_009, 1002), (300_010, .max),
      // Containers of root and of services are not as trusted as root and services themselves.
      (400_000, .max), (500_000, .max),
      // A user whose name is not in passwd(5).
      (600_000, .max),
      // root lends a person's own uid to a container: it still belongs to the person.
      (1003, 1003),
      // Subordinate uids that lie within the range of people.
      (2000, 1001), (2009, 1001), (2010, 2010),
      // Two users from a directory service: one is logged in, the other is not.
      (1_200_001, 1_200_001), (1_200_002, .max),
      // Services keep their own accounts.
      (33, 33), (0, 0),
    ] as [(UInt32, UInt32)])
  func subordinates(uid: UInt32, number: UInt32) throws {
    let directory = try TemporaryDirectory()
    let accounts = try Self.accounts(
      """
      alice:100000:65536
      bob:165536:65536
      1002:300000:10
      root:400000:65536
      www-data:500000:10
      carol:600000:10
      root:1003:1
      bob:2000:10
      www-data:33:1
      nonsense
      alice:x:1
      alice:4294967295:2
      alice:700000:0
      """,
      passwd: """
        root:x:0:0:root:/root:/bin/bash
        www-data:x:33:33::/:/usr/sbin/nologin
        alice:x:1000:1000::/home/alice:/bin/bash
        bob:x:1001:1001::/home/bob:/bin/bash
        """, sessions: [1_200_001], in: directory)
    #expect(accounts.account(ofUID: uid).number == number)
    withExtendedLifetime(directory) {}
  }

  @Test("D4 /etc/subuid changes → it is read again; it is missing → the range of a uid decides")
  func reading() throws {
    let directory = try TemporaryDirectory()
    let accounts = try Self.accounts("1000:100000:10\n", in: directory)
    #expect(accounts.account(ofUID: 100_001).number == 1000)
    try Self.write("1001:100000:1000\n", to: "\(directory.path)/subuid")
    #expect(accounts.account(ofUID: 100_001).number == 1001)
    unlink("\(directory.path)/subuid")
    unlink("\(directory.path)/passwd")
    #expect(accounts.account(ofUID: 100_001) == .unknown)
    #expect(accounts.account(ofUID: 1000).number == 1000)
  }
}
