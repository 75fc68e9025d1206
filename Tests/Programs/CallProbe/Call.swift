import ArgumentParser
import ConnectivityClient
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Logging
import NIOPosix

/// Makes calls, controlled by lines of standard input:
///
///     start CHANNEL unary|client|server|bidi ID    a call that stays open
///     quick CHANNEL ID                             a unary call, answered immediately
///     series CHANNEL COUNT MILLISECONDS ID         quick calls ID-0, ID-1, …, at this interval
///     spare CHANNEL ID                             a quick call, not on an expensive path
///     abandon CHANNEL COUNT ID                     COUNT clients with a call, cancelled at random
///     write CHANNEL ID                             one more message on a stream
///     finish CHANNEL ID                            completes an open call
///     sync ID                                      is answered with "synced"
///     shutdown                                     exits once the open calls have ended
///     quit                                         exits, as does the end of the input
struct Call: AsyncParsableCommand {
  @Option(
    help: "ADDRESS:PORT, dns:NAME, or a name of the file; each makes a channel: 0, 1, …")
  var target: [String]

  @Flag(help: "gRPC's own transport, instead of the network-aware one.")
  var plain = false

  @Option(help: "connd's socket.")
  var socket: String

  @Option(help: "destroy or drain.")
  var onInvalidation = "destroy"

  @Option(help: "Seconds before an attempt that follows on one that failed.")
  var backoff = 1

  @Option(help: "The link that connections are bound to.")
  var interface: String?

  @Option(help: "never, inexpensive or allowed.")
  var assist = "inexpensive"

  @Option(help: "never, exceptStreams or always.")
  var recovery = "always"

  @Flag(help: "Connections use Multipath TCP if they can.")
  var multipath = false

  @Flag(help: "TCP's timeouts stay as they are.")
  var keepTimeouts = false

  @Option(help: "The mark of connections.")
  var mark: UInt32 = 0

  @Option(
    help:
      "Seconds of silence after which the other side is asked for a sign of life, and has as many for it."
  )
  var keepalive: Int?

  @Flag(help: "Logs nothing.")
  var quiet = false

  @Option(help: "A file in PEM; with it, TLS is spoken to \"server.test\".")
  var tlsCA: String?

  @Option(help: "Lines of a name and its ADDRESS:PORT; read for each resolution.")
  var resolveFile: String?

  func run() async throws {
    let authority = self.tlsCA.map { _ in "server.test" }
    if self.plain {
      try await Calls(self.target.count) { channel in
        try HTTP2ClientTransport.Posix(
          target: self.target(of: channel), transportSecurity: self.security,
          config: .defaults { $0.http2.authority = authority }, resolverRegistry: self.registry)
      }.run()
    } else {
      try await Calls(self.target.count) { channel in
        try NetworkAwareTransport(
          target: self.target(of: channel), transportSecurity: self.security,
          config: self.config(channel, authority: authority), resolverRegistry: self.registry)
      }.run()
    }
    report("quit")
  }

  private func target(of channel: Int) -> any ResolvableTarget {
    let target = self.target[channel]
    if target.hasPrefix("dns:") { return .dns(host: String(target.dropFirst(4)), port: 50051) }
    guard let host = Host(target) else { return NamedTarget(name: target) }
    return host.isIPv6
      ? .ipv6(address: host.address, port: host.port)
      : .ipv4(address: host.address, port: host.port)
  }

  private var security: HTTP2ClientTransport.Posix.TransportSecurity {
    guard let tlsCA else { return .plaintext }
    return .tls { $0.trustRoots = .certificates([.file(path: tlsCA, format: .pem)]) }
  }

  private var registry: NameResolverRegistry {
    var registry = NameResolverRegistry.defaults
    registry.registerFactory(FileResolver(file: self.resolveFile ?? "/dev/null"))
    return registry
  }

  private func config(_ channel: Int, authority: String?) -> NetworkAwareTransport.Config {
    .defaults { config in
      config.http2.authority = authority
      config.socket = ConndSocket(path: self.socket)
      config.interface = self.interface
      config.mark = self.mark
      config.multipath = self.multipath ? .handover : .none
      config.assist =
        ["never": .never, "allowed": .allowed][self.assist, default: .inexpensive]
      config.shortensOutages = !self.keepTimeouts
      config.recovery =
        ["never": .never, "exceptStreams": .exceptStreams][self.recovery, default: .always]
      if let seconds = self.keepalive {
        config.connection.keepalive = .init(
          time: .seconds(seconds), timeout: .seconds(seconds), allowWithoutCalls: false)
      }
      config.backoff.initial = .seconds(self.backoff)
      config.onInvalidation = self.onInvalidation == "drain" ? .drain : .destroy
      config.onConnectivityStateChange = { state in
        report("state", channel: channel, ["state": state.rawValue])
      }
      config.calls.onWait = { path in
        report("waiting", channel: channel, ["message": path.status.rawValue])
      }
      if self.quiet { return }
      var logger = Logger(label: "channel \(channel)") { label in
        StreamLogHandler.standardError(label: label)
      }
      logger.logLevel = .debug
      config.backgroundActivityLogger = logger
      config.calls.logger = logger
    }
  }
}
