import ArgumentParser
import ConnectivityClient
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import ServiceLifecycle

/// The client. Its transport and one `catch` make it survive a change of the network.
struct Follow: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Report a reading and follow the server's notices, until stopped.")

  @Option(help: ArgumentHelp("The server.", valueName: "host:port"))
  var target: Server

  @Flag(help: "Use gRPC's own transport, which does not know the network.")
  var without = false

  @Option(help: ArgumentHelp("connd's socket.", valueName: "path"))
  var conndSocket = ConndSocket.default.path

  func run() async throws {
    let target: any ResolvableTarget = .dns(host: self.target.host, port: self.target.port)
    if self.without {
      try await self.run(
        with: HTTP2ClientTransport.Posix(target: target, transportSecurity: .plaintext))
    } else {
      // This is the only change to a program: `.networkAware` in place of `.http2NIOPosix`. The
      // socket is optional. connd need not be running, and is found once it appears.
      try await self.run(
        with: .networkAware(
          target: target, transportSecurity: .plaintext,
          config: .defaults { $0.socket = ConndSocket(path: self.conndSocket) }),
        NetworkTeller(monitor: PathMonitor(socket: ConndSocket(path: self.conndSocket))))
    }
  }

  private func run(with transport: some ClientTransport, _ others: any Service...) async throws {
    let client = GRPCClient(transport: transport)
    // The follower uses the client, so it ends first.
    try await telemetry.run(
      others + [
        GRPCClientService(client),
        Follower(server: Telemetry_V1_Telemetry.Client(wrapping: client)),
      ])
  }
}

/// Makes the calls in a loop: a report, and then a call that stays open.
private struct Follower<Transport: ClientTransport>: Service {
  let server: Telemetry_V1_Telemetry.Client<Transport>

  func run() async throws {
    // An open call would delay the shutdown, which does not cancel calls by itself.
    try await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        do {
          try await self.report()
          try await self.follow()
          say("Follow ended: the server goes")
        } catch let error as RPCError where error.code == .unavailable {
          if let invalidation = error.invalidation {
            // connd reported that the connection is dead, and why. The server is not the problem,
            // so do not wait: the next call makes a new connection over the current network.
            say("UNAVAILABLE: \(invalidation.reason.rawValue)")
            continue
          }
          // The server is down or unreachable.
          say("UNAVAILABLE: \(error.message)")
        } catch  where Task.isCancelled {
          return
        }
        try? await Task.sleep(for: .seconds(1))
      }
    }
  }

  /// Makes a unary call. If it ends with UNAVAILABLE, it is unknown whether the server received the
  /// reading. Therefore neither gRPC nor the library repeats calls automatically. Here the next
  /// round does, because duplicate readings are harmless.
  private func report() async throws {
    let start = ContinuousClock.now
    let receipt = try await self.server.report(
      .with {
        $0.sensor = "cellar"
        $0.celsius = 11.5
      })
    let milliseconds = Int((start.duration(to: .now) / .milliseconds(1)).rounded(.up))
    say("Report OK after \(milliseconds) ms; the server sees \(receipt.seenFrom)")
  }

  /// Makes a call that stays open. Without connd it would hang when its connection dies, because it
  /// sends nothing that TCP could find unacknowledged.
  private func follow() async throws {
    try await self.server.follow(Telemetry_V1_FollowRequest()) { response in
      for try await notice in response.messages { say("notice \(notice.number)") }
    }
  }
}

/// Prints the network that traffic uses, after each change. A program can check this before sending
/// large data.
private struct NetworkTeller: Service {
  let monitor: PathMonitor

  func run() async {
    await cancelWhenGracefulShutdown {
      for await path in self.monitor {
        // Without connd the path is unknown, which counts as online.
        var words = [path.isOnline ? "now on \(path.medium)" : "now offline"]
        if path.isExpensive == true { words.append("expensive") }
        if path.isConstrained { words.append("constrained") }
        say(words.joined(separator: ", "))
      }
    }
  }
}

/// `HOST:PORT`. An IPv6 address needs brackets.
struct Server: ExpressibleByArgument {
  var host: String
  var port: Int

  init?(argument: String) {
    guard let colon = argument.lastIndex(of: ":"), colon > argument.startIndex,
      let port = UInt16(argument[argument.index(after: colon)...])
    else { return nil }
    self.host = argument[..<colon].filter { $0 != "[" && $0 != "]" }
    self.port = Int(port)
  }
}
