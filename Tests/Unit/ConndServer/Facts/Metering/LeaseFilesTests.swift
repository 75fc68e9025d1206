import Glibc
import TestKit
import Testing

@testable import ConndServer

@Suite("Leases")
struct LeaseFilesTests {
  private let directory: TemporaryDirectory
  private var leases: LeaseFiles { LeaseFiles(root: self.directory.path) }
  /// The link that every machine has.
  private let loopback = if_nametoindex("lo")

  init() throws {
    self.directory = try TemporaryDirectory()
    try Command.run(["mkdir", "-p", self.directory.path + "/run/systemd/netif/leases"])
  }

  private func write(_ text: String, to name: String) throws {
    try self.directory.write(text, to: "run/systemd/netif/leases/\(name)")
  }

  /// A lease file as networkd of Debian 12 writes it.
  private static func lease(_ last: String) -> String {
    """
    # This is private data. Do not parse.
    ADDRESS=192.168.42.17
    NETMASK=255.255.255.0
    ROUTER=192.168.42.129
    SERVER_ADDRESS=192.168.42.129
    LIFETIME=3600
    CLIENTID=ff5f6a2b3c
    \(last)

    """
  }

  @Test(
    "a metered phone says so in DHCP option 43",
    arguments: [
      ("VENDOR_SPECIFIC=414e44524f49445f4d455445524544", true),
      ("VENDOR_SPECIFIC=010f414E44524F49445F4D455445524544ff", true),
      ("VENDOR_SPECIFIC=414e44524f49445f4d4554455245", false),
      ("VENDOR_SPECIFIC=0104c0000201", false), ("VENDOR_SPECIFIC=", false),
      ("VENDOR_SPECIFIC=zz4e44524f49445f4d455445524544", false),
      ("HOSTNAME=ANDROID_METERED", false), ("OPTION_224=414e44524f49445f4d455445524544", false),
      ("", false),
    ])
  func phone(line: String, isPhone: Bool) throws {
    try self.write(Self.lease(line), to: "\(self.loopback)")
    #expect(self.leases.phones() == (isPhone ? ["lo"] : []))
  }

  @Test("a file that belongs to no link, or a missing directory, is ignored")
  func others() throws {
    let text = Self.lease("VENDOR_SPECIFIC=414e44524f49445f4d455445524544")
    for name in ["4294967295", "x", ".#1abc", "-1", "99999999999"] {
      try self.write(text, to: name)
    }
    #expect(self.leases.phones() == [])
    #expect(LeaseFiles(root: "/nonexistent").phones() == [])
  }

  @Test("D7 files written, replaced or removed are reported, even in a directory created later")
  func watched() throws {
    let watch = FileWatch()
    let directory = self.leases.directory
    try Command.run(["rm", "-r", self.directory.path + "/run"])
    watch.watch(directory: directory)
    #expect(!watch.clear())
    try Command.run(["mkdir", "-p", directory])
    #expect(watch.clear())
    watch.watch(directory: directory)
    try self.write("x", to: "new")
    #expect(watch.clear() && !watch.clear())
    #expect(rename("\(directory)/new", "\(directory)/7") == 0)
    #expect(watch.clear())
    #expect(unlink("\(directory)/7") == 0)
    #expect(watch.clear())
  }
}
