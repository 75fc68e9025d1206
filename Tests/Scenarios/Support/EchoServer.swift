import Glibc
import TestKit
import Testing

/// `callprobe serve-echoes`, outside of a laboratory.
final class EchoServer {
  static let port = 7000
  private let lab: Laboratory
  private let command: RunningCommand

  init(_ lab: Laboratory, _ arguments: [String] = []) throws {
    self.lab = lab
    self.command = try lab.outside.spawn(
      [try Programs.callprobe, "serve-echoes", "--port", "\(Self.port)"] + arguments)
    try self.command.line { $0.contains("\"ready\"") }
  }

  /// A program that makes plain connections to the server.
  ///
  /// - Parameter address: one of the server's, with its zone for IPv6.
  func client(to address: String, _ arguments: [String]) throws -> CallProbe {
    let host = address.contains(":") ? "[\(address)]" : address
    return try CallProbe(
      self.lab, to: ["\(host):\(Self.port)"], arguments, command: "connections")
  }

  func end() throws {
    self.command.signal(SIGKILL)
    try self.command.wait()
  }
}

/// The commands of `callprobe connections`.
extension CallProbe {
  /// Makes a connection.
  func connect(_ number: Int) throws {
    try self.send("connect \(number)")
    try self.next("open", of: "\(number)")
  }

  /// Checks that data sent on a connection comes back.
  func expectEcho(_ number: Int, within deadline: Duration = .seconds(20)) throws {
    try self.send("echo \(number)")
    try self.next("echoed", of: "\(number)", within: deadline)
  }
}
