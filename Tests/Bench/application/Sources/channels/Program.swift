import ConnectivityClient
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Glibc

/// An application with network-aware channels, and its server.
///
///     channels serve PORT                             answers, until it is killed
///     channels lose SOCKET HOST:PORT CHANNELS [heard] reports when calls in flight end
///     channels call KIND HOST:PORT CALLS              makes unary calls, one by one
///     channels hold KIND HOST:PORT CHANNELS           prints one channel's anonymous bytes
///
/// KIND is `plain`, which is gRPC's own transport, or connd's socket.
@main
struct Program {
  // The main thread reads the input, so that no thread of the calls waits for it.
  static func main() {
    let (lines, input) = AsyncStream.makeStream(of: String.self)
    Task.detached {
      do {
        try await Self.run(lines)
        exit(0)
      } catch {
        fail("\(error)")
      }
    }
    while let line = readLine() { input.yield(line) }
    input.finish()
    while true { pause() }
  }

  private static func run(_ input: AsyncStream<String>) async throws {
    let arguments = CommandLine.arguments.dropFirst()
    switch Array(arguments) {
    case let words where words.count == 2 && words[0] == "serve":
      try await serve(port: Int(words[1]) ?? 0)
    case let words where words.count >= 4 && words[0] == "lose":
      try await loseCalls(
        to: Server(words[2]), socket: words[1], channels: Int(words[3]) ?? 1,
        tellsHeard: words.last == "heard", input)
    case let words where words.count == 4 && words[0] == "call" && words[1] == "plain":
      try await call(try Server(words[2]).plain(), times: Int(words[3]) ?? 1)
    case let words where words.count == 4 && words[0] == "call":
      try await call(try Server(words[2]).networkAware(words[1]), times: Int(words[3]) ?? 1)
    case let words where words.count == 4 && words[0] == "hold" && words[1] == "plain":
      try await hold(Int(words[3]) ?? 1) { try Server(words[2]).plain() }
    case let words where words.count == 4 && words[0] == "hold":
      try await hold(Int(words[3]) ?? 1) { try Server(words[2]).networkAware(words[1]) }
    default:
      fail("usage: channels serve|lose|call|hold …")
    }
  }
}

/// The server's address.
struct Server: Sendable {
  private let target: ResolvableTargets.IPv4

  init(_ hostAndPort: String) {
    let parts = hostAndPort.split(separator: ":")
    guard parts.count == 2, let port = Int(parts[1]) else { fail("\(hostAndPort) is no HOST:PORT") }
    self.target = .ipv4(address: String(parts[0]), port: port)
  }

  func plain() throws -> HTTP2ClientTransport.Posix {
    try .http2NIOPosix(target: self.target, transportSecurity: .plaintext)
  }

  func networkAware(
    _ socket: String, onInvalidation: InvalidationHandling = .destroy
  ) throws -> NetworkAwareTransport {
    try .networkAware(
      target: self.target, transportSecurity: .plaintext,
      config: .defaults { config in
        config.socket = ConndSocket(path: socket)
        config.onInvalidation = onInvalidation
      })
  }
}

/// Writes a line immediately.
func say(_ line: String) { write(line, to: STDOUT_FILENO) }

func fail(_ why: String) -> Never {
  write("channels: \(why)", to: STDERR_FILENO)
  exit(1)
}

private func write(_ line: String, to descriptor: CInt) {
  var line = line + "\n"
  line.withUTF8 { _ = Glibc.write(descriptor, $0.baseAddress, $0.count) }
}

/// Nanoseconds of CLOCK_MONOTONIC.
func now() -> Int {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return time.tv_sec * 1_000_000_000 + time.tv_nsec
}
