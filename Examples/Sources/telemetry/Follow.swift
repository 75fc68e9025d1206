import ArgumentParser
import ConnectivityClient
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import ServiceLifecycle

/// The client. What makes it outlive a change of the network is its transport, and one `catch`.
struct Follow: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Report a reading and follow the server's notices, for as long as it runs.")

  @Option(help: ArgumentHelp("The server.", valueName: "host:port"))
  var target: Server

  @Flag(help: "Use gRPC's own transport, which is told nothing of the network.")
  var without = false

  @Option(help: ArgumentHelp("connd's socket.", valueName: "path"))
  var conndSocket = SocketPath.default

  func run() async throws {
    let target: any ResolvableTarget = .dns(host: self.target.host, port: self.target.port)
    if self.without {
      try await self.run(
        with: HTTP2ClientTransport.Posix(target: target, transportSecurity: .plaintext))
    } else {
      // This is all that a program changes: `.networkAware` where it says `.http2NIOPosix`. The socket need not be
      // given; connd need not even be there, and is found when it comes.
      try await self.run(
        with: .networkAware(
          target: target, transportSecurity: .plaintext,
          config: .defaults { $0.socket = self.conndSocket }),
        NetworkTeller(monitor: PathMonitor(socket: self.conndSocket)))
    }
  }

  private func run(with transport: some ClientTransport, _ others: any Service...) async throws {
    let client = GRPCClient(transport: transport)
    // The follower ends before the client whose calls it makes.
    try await telemetry.run(
      others + [
        GRPCClientService(client),
        Follower(server: Telemetry_V1_Telemetry.Client(wrapping: client)),
      ])
  }
}

/// Makes the calls: a report, and then a call that stays open; and all over again when that ends.
private struct Follower<Transport: ClientTransport>: Service {
  let server: Telemetry_V1_Telemetry.Client<Transport>

  func run() async throws {
    // A call that stays open would hold up the shutdown, which cancels nothing by itself.
    try await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        do {
          try await self.report()
          try await self.follow()
          say("Follow ended: the server goes")
        } catch let error as RPCError where error.code == .unavailable {
          if let invalidation = error.invalidation {
            // connd said that the connection is dead, and why. This says nothing of the server, and there is nothing to
            // wait for: the next call makes a new connection, over the network that there is now.
            say("UNAVAILABLE: \(invalidation.reason.rawValue)")
            continue
          }
          // The server, or the way to it, is really not there.
          say("UNAVAILABLE: \(error.message)")
        } catch  where Task.isCancelled {
          return
        }
        try? await Task.sleep(for: .seconds(1))
      }
    }
  }

  /// A unary call. Whether the server took a reading whose call ended with UNAVAILABLE nobody knows: neither gRPC nor the
  /// library repeats a call behind your back. Here the next round does, as readings may be taken twice.
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

  /// A call that stays open: the kind that hangs when its connection dies, for it sends nothing that TCP could miss.
  private func follow() async throws {
    try await self.server.follow(Telemetry_V1_FollowRequest()) { response in
      for try await notice in response.messages { say("notice \(notice.number)") }
    }
  }
}

/// Says by which network traffic leaves, whenever that changes. A program may ask this before it sends much.
private struct NetworkTeller: Service {
  let monitor: PathMonitor

  func run() async {
    await cancelWhenGracefulShutdown {
      for await path in self.monitor {
        // Without connd nothing is known. That counts as online: not to know is not to be offline.
        var words = [path.isOnline ? "now by \(path.medium)" : "now offline"]
        if path.isExpensive { words.append("expensive") }
        if path.isConstrained { words.append("data to be saved") }
        say(words.joined(separator: ", "))
      }
    }
  }
}

/// `HOST:PORT`; an IPv6 address in brackets.
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
