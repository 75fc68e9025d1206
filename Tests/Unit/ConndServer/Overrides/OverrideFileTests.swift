import Connectivity
import ConnectivityRules
import Glibc
import Logging
import TestKit
import TestTraits
import Testing

@testable import ConndServer

/// The file of users' overrides.
@Suite("File of overrides")
struct OverrideFileTests {
  @Test(
    "the hash is SipHash-2-4, checked with its authors' test vectors",
    arguments: [
      (0, 0x726f_db47_dd0e_0e31), (1, 0x74f8_39c5_93dc_67fd), (7, 0xab02_00f5_8b01_d137),
      (8, 0x93f5_f579_9a93_2462), (15, 0xa129_ca61_49be_45e5), (63, 0x958a_324c_eb06_4572),
    ] as [(UInt8, UInt64)])
  func sipHash(length: UInt8, hash: UInt64) {
    #expect(SipHash(key: Array(0..<16)).hash(Array(0..<length)) == hash)
  }

  @Test(
    "I4 a network is identified by its name, and an open one differs from a secured one")
  func identity() {
    let (key, other) = (NetworkKey(), NetworkKey())
    func hash(_ name: String, _ security: WirelessSecurity?, _ key: NetworkKey) -> NetworkHash {
      key.hash(of: WirelessNetwork(ssid: Array(name.utf8), security: security))
    }
    #expect(hash("Home", .personal, key) == hash("Home", [.personal, .enterprise], key))
    #expect(hash("Home", .personal, key) != hash("Home", .open, key))
    #expect(hash("Home", .personal, key) != hash("home", .personal, key))
    // Another machine gets another hash.
    #expect(hash("Home", .personal, key) != hash("Home", .personal, other))
    #expect(key.hashes(ofName: "Home").contains(hash("Home", .open, key)))
    #expect(key.hashes(ofName: "Home").contains(hash("Home", nil, key)))
    let text = hash("Home", .personal, key).description
    #expect(text.utf8.count == 16 && NetworkHash(text) == hash("Home", .personal, key))
    #expect(NetworkHash("+123456789abcdef") == nil && NetworkHash("00ff") == nil)
  }

  private static let contents = OverrideFile.Contents(
    key: NetworkKey(bytes: Array(0..<16)),
    overrides: CostOverrides([
      .link("eth0"): CostOverride(constrained: .on, user: 1000),
      .link("wlan0"): CostOverride(expensive: .init(false, until: .left), user: 0),
      .network(NetworkHash(7)): CostOverride(
        constrained: .off, expensive: .init(true, until: .time(WallTime(microseconds: -5))),
        user: 7, name: "ä o\n"),
      .network(NetworkHash(.max)): CostOverride(constrained: .init(true, until: .boot), user: 1000),
      .machine: CostOverride(
        assist: .init(true, until: .time(WallTime(microseconds: 9))), user: 1000),
    ]))

  private func file(_ directory: TemporaryDirectory, boot: String = "a") -> OverrideFile {
    OverrideFile(
      path: "\(directory.path)/networks", boot: boot,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }

  @Test(
    "saved overrides are read back; those until the next boot end with it")
  func roundTrip() throws {
    let directory = try TemporaryDirectory()
    let first = self.file(directory).load()
    #expect(first.overrides.all.isEmpty && first.key.bytes.count == NetworkKey.length)
    #expect(first.key == self.file(directory).load().key)
    #expect(self.file(directory).save(Self.contents))
    #expect(self.file(directory).load() == Self.contents)
    var later = Self.contents
    later.overrides[.network(NetworkHash(.max))] = nil
    #expect(self.file(directory, boot: "b").load() == later)
    var status = stat()
    #expect(stat("\(directory.path)/networks", &status) == 0 && status.st_mode & 0o777 == 0o600)
  }

  @Test("an override until boot has ended if a sandbox hides the kernel's boot ID")
  func boot() throws {
    let directory = try TemporaryDirectory()
    #expect(OverrideFile.bootID(try directory.write("1f-2e\n", to: "boot_id")) == "1f-2e")
    #expect(OverrideFile.bootID("/nonexistent") == "")
    #expect(self.file(directory, boot: "").save(Self.contents))
    #expect(self.file(directory, boot: "").load().overrides[.network(NetworkHash(.max))] == nil)
  }

  @Test("the file lists its contents, and of a network the hash and the name that a user wrote")
  func form() {
    #expect(
      OverrideFile.text(Self.contents, boot: "a").split(separator: "\n").dropLast() == [
        "connd networks 2", "key 000102030405060708090a0b0c0d0e0f",
        "link eth0 user=1000 constrained=true", "link wlan0 user=0 expensive=false left=true",
        "machine - user=1000 assist=true time=9",
        "network 0000000000000007 user=7 name=c3a4206f0a constrained=false expensive=true time=-5",
        "network ffffffffffffffff user=1000 constrained=true boot=a",
      ])
  }

  @Test("a file of version 1: both properties of an entry end together")
  func oldForm() throws {
    let body =
      "connd networks 1\nkey 000102030405060708090a0b0c0d0e0f\n"
      + "link eth0 user=1 constrained=true expensive=false time=5\n"
      + "link eth1 user=1 constrained=true boot=b\n"
    let text = body + "end \(OverrideFile.checksum(Array(body.utf8)[...]))\n"
    let end = CostOverride.End.time(WallTime(microseconds: 5))
    #expect(
      try OverrideFile.read(Array(text.utf8), boot: "a").overrides.all == [
        .link("eth0"): CostOverride(
          constrained: .init(true, until: end), expensive: .init(false, until: end), user: 1)
      ])
  }

  @Test("a torn, edited or foreign-version file is put aside")
  func damaged() throws {
    let whole = OverrideFile.text(Self.contents, boot: "a")
    let texts = [
      "", "\n", String(whole.dropLast()), String(whole.dropFirst()),
      whole.replacing("constrained=true", with: "constrained=false"),
      whole.replacing("networks 2", with: "networks 3"),
      whole + "link eth1 user=0 expensive=true\n",
    ]
    for text in texts {
      let directory = try TemporaryDirectory()
      try directory.write(text, to: "networks")
      #expect(self.file(directory).load().overrides.all.isEmpty, "\(text)")
      #expect(access("\(directory.path)/networks.damaged", F_OK) == 0)
      // The new file has a new key, which stays.
      let new = self.file(directory).load()
      #expect(new.overrides.all.isEmpty && new.key != Self.contents.key)
      #expect(new == self.file(directory).load())
    }
  }

  @Test(
    "any corrupted file is read or refused", .blocking, arguments: 0..<20 as Range<UInt64>)
  func random(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    let whole = Array(OverrideFile.text(Self.contents, boot: "a").utf8)
    for _ in 0..<200 {
      var bytes = whole
      for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: bytes[place] = .random(in: 0...255, using: &generator)
        case 1: bytes.remove(at: place)
        default: bytes.insert(bytes[Int.random(in: 0..<bytes.count, using: &generator)], at: place)
        }
      }
      let text = String(decoding: bytes, as: UTF8.self)
      if let read = try? OverrideFile.read(Array(text.utf8), boot: "a") {
        #expect(Array(text.utf8) == whole && read == Self.contents)
      }
      // As if the checksum had been corrected.
      let body = text.split(separator: "\n").dropLast().map { $0 + "\n" }.joined()
      let sum = NetworkHash(SipHash(key: []).hash(Array(body.utf8)))
      _ = try? OverrideFile.read(Array((body + "end \(sum)\n").utf8), boot: "a")
    }
  }

  @Test("a full or read-only disk keeps the old file")
  func unwritable() throws {
    let directory = try TemporaryDirectory()
    #expect(self.file(directory).save(Self.contents))
    let file = OverrideFile(
      path: "\(directory.path)/nowhere/networks", boot: "a",
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    #expect(!file.save(Self.contents) && !file.save(Self.contents))
    #expect(self.file(directory).load() == Self.contents)
  }

  @Test("a thousand networks are all kept")
  func many() throws {
    var contents = Self.contents
    for number in 0..<1000 as Range<UInt64> {
      contents.overrides[.network(NetworkHash(number << 32))] = CostOverride(
        constrained: .on, user: 1000)
    }
    let text = OverrideFile.text(contents, boot: "a")
    #expect(text.utf8.count < 128 * 1024)
    #expect(try OverrideFile.read(Array(text.utf8), boot: "a") == contents)
  }
}

/// The thread that writes overrides.
@Suite("Writing overrides")
struct OverrideStoreTests {
  private static func contents(_ number: Int) -> OverrideFile.Contents {
    OverrideFile.Contents(
      key: NetworkKey(bytes: Array(0..<16)),
      overrides: CostOverrides([.link("eth\(number)"): CostOverride(constrained: .on, user: 1000)]))
  }

  private static func file(_ path: String) -> OverrideFile {
    OverrideFile(
      path: path, boot: "a", logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }

  @Test("D4 many changes in a row → the first and the last are saved, in few writes")
  func paced() async throws {
    let directory = try TemporaryDirectory()
    let path = "\(directory.path)/networks"
    let keeper = OverrideStore(Self.file(path))
    #expect(await keeper.keep(Self.contents(0)).isKept())
    #expect(Self.file(path).load() == Self.contents(0))
    // Each write creates a new file, so there are at most as many writes as inodes.
    var (inodes, status) = (Set<ino_t>(), stat())
    var tickets: [OverrideStore.Ticket] = []
    for number in 1...10_000 {
      tickets.append(keeper.keep(Self.contents(number)))
      if stat(path, &status) == 0 { inodes.insert(status.st_ino) }
    }
    keeper.finish()
    for ticket in tickets.suffix(3) { #expect(await ticket.isKept()) }
    #expect(Self.file(path).load() == Self.contents(10_000))
    #expect(inodes.count <= 12, "\(inodes.count) writes")
  }

  @Test(
    "the disk is full → the answer says that the override is not saved; the next one is saved again"
  )
  func failure() async throws {
    let directory = try TemporaryDirectory()
    let path = "\(directory.path)/later/networks"
    let keeper = OverrideStore(Self.file(path))
    #expect(await !keeper.keep(Self.contents(1)).isKept())
    #expect(await !keeper.keep(Self.contents(1)).isKept())
    #expect(mkdir("\(directory.path)/later", 0o700) == 0)
    #expect(await keeper.keep(Self.contents(1)).isKept())
    #expect(Self.file(path).load() == Self.contents(1))
  }

  @Test("a crash while the file is written → the old contents remain")
  func crash() throws {
    let directory = try TemporaryDirectory()
    let path = "\(directory.path)/networks"
    #expect(Self.file(path).save(Self.contents(1)))
    let half = OverrideFile.text(Self.contents(2), boot: "a").dropLast(9)
    try directory.write(String(half), to: "networks.new")
    #expect(Self.file(path).load() == Self.contents(1))
    #expect(Self.file(path).save(Self.contents(3)))
    #expect(Self.file(path).load() == Self.contents(3))
  }
}
