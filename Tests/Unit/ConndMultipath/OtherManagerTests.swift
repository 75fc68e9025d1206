import TestKit
import Testing

@testable import ConndMultipath

/// Processes in a directory that looks like /proc.
@Suite("Another manager of endpoints")
struct OtherManagerTests {
  private struct Machine {
    private let directory: TemporaryDirectory

    init() throws {
      self.directory = try TemporaryDirectory()
      try self.add("self", link: "own", file: "own")
    }

    /// Adds a process. Its namespace is the file that its link or its /proc/PID/net has in common
    /// with others.
    func add(
      _ process: String, name: String = "mptcpd", effective: UInt64 = 0, permitted: UInt64 = 0,
      map: String = "0 0 4294967295\n", link: String? = nil, file: String? = nil
    ) throws {
      let path = "\(self.directory.path)/\(process)"
      try Command.run(["mkdir", "-p", "\(path)/ns", "\(path)/net"])
      try self.directory.write("\(name)\n", to: "\(process)/comm")
      try self.directory.write(map, to: "\(process)/uid_map")
      try self.directory.write(
        """
        Name:\t\(name)
        CapInh:\tffffffffffffffff
        CapPrm:\t\(Self.digits(permitted))
        CapEff:\t\(Self.digits(effective))
        CapBnd:\tffffffffffffffff

        """, to: "\(process)/status")
      for (namespace, place) in [(link, "ns/net"), (file, "net/dev")] {
        guard let namespace else { continue }
        let shared = try self.directory.write("", to: "namespace-\(namespace)")
        try Command.run(["ln", shared, "\(path)/\(place)"])
      }
    }

    private static func digits(_ set: UInt64) -> String {
      let digits = String(set, radix: 16)
      return String(repeating: "0", count: 16 - digits.count) + digits
    }

    var process: Int32? { OtherManager(proc: self.directory.path).process }
  }

  private static let netAdmin: UInt64 = 1 << 12

  @Test("no process has the name → no manager")
  func none() throws {
    let machine = try Machine()
    try machine.add("7", name: "sleep", effective: .max, permitted: .max, link: "own", file: "own")
    #expect(machine.process == nil)
  }

  @Test("M2 the process has CAP_NET_ADMIN in this namespace, effective or permitted → it counts")
  func counts() throws {
    var machine = try Machine()
    try machine.add("7", effective: Self.netAdmin, link: "own", file: "own")
    #expect(machine.process == 7)
    machine = try Machine()
    try machine.add("8", permitted: Self.netAdmin, link: "own", file: "own")
    #expect(machine.process == 8)
    // The link of another user's process cannot be read.
    machine = try Machine()
    try machine.add("9", effective: .max, permitted: .max, file: "own")
    #expect(machine.process == 9)
  }

  @Test("M2 an ordinary user's process has only the name → it does not count")
  func onlyTheName() throws {
    let machine = try Machine()
    try machine.add("7", link: "own", file: "own")
    try machine.add("8", effective: ~Self.netAdmin, permitted: ~Self.netAdmin, file: "own")
    #expect(machine.process == nil)
  }

  @Test("M2 the process has all capabilities in a user namespace of its own → it does not count")
  func ownUserNamespace() throws {
    let machine = try Machine()
    let map = "0 1001 1\n"
    try machine.add("7", effective: .max, permitted: .max, map: map, file: "own")
    #expect(machine.process == nil)
  }

  @Test("M2 the process is in another network namespace, or that is unknown → it does not count")
  func otherNamespace() throws {
    let machine = try Machine()
    try machine.add("7", effective: .max, link: "other", file: "own")
    try machine.add("8", effective: .max, file: "other")
    try machine.add("9", effective: .max)
    #expect(machine.process == nil)
  }

  @Test("mptcpd beside a process that has only the name → it is found")
  func beside() throws {
    let machine = try Machine()
    for process in 1..<5 { try machine.add("\(process)", link: "own", file: "own") }
    try machine.add("5", effective: .max, link: "own", file: "own")
    #expect(machine.process == 5)
  }
}
