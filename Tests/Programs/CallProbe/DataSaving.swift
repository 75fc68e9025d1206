import ArgumentParser
import ConnectivityClient
import NIOCore
import NIOPosix

/// A picture in two sizes: an example of saving data.
struct Picture: AsyncParsableCommand {
  @Option(help: "ADDRESS:PORT") var target: String
  @Option(help: "connd's socket.") var socket: String
  @Flag(help: "Without the library.") var plain = false

  func run() async throws {
    guard let host = Host(self.target) else { throw ValidationError("\(self.target) is no target") }
    let client = HTTPClient(host, socket: self.socket, plain: self.plain)
    let (large, small) = ("2000000", "50000")
    if self.plain {
      let picture = try await client.get(large)
      return report("picture", ["message": "\(picture)"])
    }
    let picture = try await withFallback(on: [.constrained, .expensive]) {
      try await client.get(large, over: .inexpensive)
    } fallback: { reason in
      try await client.get(small)
    }
    report("picture", ["message": "\(picture)"])
  }
}

/// A copy of something large in parts that can wait: it begins on an inexpensive path, and is
/// suspended on an expensive one.
struct Backup: AsyncParsableCommand {
  @Option(help: "ADDRESS:PORT") var target: String
  @Option(help: "connd's socket.") var socket: String
  @Option(help: "How many parts there are.") var parts: Int
  @Option(help: "How many bytes each has.") var size: Int
  @Option(help: "The part after which a line of standard input is waited for.") var halt: Int?
  @Option(help: "The part of which the server sends half at first.") var slow: Int?
  @Flag(help: "The user waits for it.") var userInitiated = false
  @Flag(help: "Without the library.") var plain = false

  func run() async throws {
    guard let host = Host(self.target) else { throw ValidationError("\(self.target) is no target") }
    let client = HTTPClient(host, socket: self.socket, plain: self.plain)
    if self.plain {
      for part in 1...self.parts { try await self.get(part, client) }
    } else {
      let task = DiscretionaryTask(
        config: .defaults {
          $0.monitor = PathMonitor(socket: ConndSocket(path: self.socket))
          $0.isUserInitiated = self.userInitiated
          $0.onWait = { report("waits", ["message": $0.description]) }
        })
      try await task.run { network in
        for part in 1...self.parts {
          try await network.restarting { try await self.get(part, client) }
        }
      }
    }
    report("ended")
  }

  private func get(_ part: Int, _ client: HTTPClient) async throws {
    report("begins", ["id": "\(part)"])
    _ = try await client.get(
      "\(self.size)" + (part == self.slow ? "?slow" : ""),
      over: self.userInitiated ? .unrestricted : .inexpensive)
    report("part", ["id": "\(part)"])
    guard part == self.halt else { return }
    _ = try await NIOSingletons.posixBlockingThreadPool.runIfActive { readLine() }
  }
}
