import ArgumentParser
import ConnectivityClient
import Glibc

/// A PostgreSQL query that takes an hour, with libpq, which knows nothing of networks and waits in
/// poll(2). One line guards its socket.
struct Query: ParsableCommand {
  @Option(help: "ADDRESS:PORT") var target: String
  @Option(help: "connd's socket.") var socket: String
  @Flag(help: "The socket is not guarded.") var unguarded = false

  func run() throws {
    guard let host = Host(self.target) else { throw ValidationError("\(self.target) is no target") }
    let libpq = try LibPQ()
    let connection = libpq.connect(
      "host=\(host.address) port=\(host.port) user=postgres dbname=postgres connect_timeout=10")
    guard libpq.status(connection) == 0 else {
      return report("refused", ["message": libpq.message(connection)])
    }
    let watch =
      self.unguarded
      ? nil
      : try SocketGuard(
        descriptor: libpq.socket(connection),
        config: .defaults {
          $0.socket = ConndSocket(path: self.socket)
          $0.shutsDown = true
        })
    report("open")
    libpq.execute(connection, "select pg_sleep(3600)")
    report("ended", ["message": libpq.message(connection)])
    watch?.end()
    libpq.finish(connection)
  }
}

/// The used functions of libpq. It is loaded when needed, because no other test program needs it.
private struct LibPQ {
  typealias Connection = OpaquePointer?

  private let library: UnsafeMutableRawPointer

  init() throws {
    guard let library = dlopen("libpq.so.5", RTLD_NOW) else {
      throw ValidationError("there is no libpq.so.5")
    }
    self.library = library
  }

  private func function<Function>(_ name: String, _ type: Function.Type) -> Function {
    unsafeBitCast(dlsym(self.library, name), to: type)
  }

  func connect(_ words: String) -> Connection {
    self.function(
      "PQconnectdb", (@convention(c) (UnsafePointer<CChar>) -> Connection).self)(words)
  }

  /// 0 means connected.
  func status(_ connection: Connection) -> CInt {
    self.function("PQstatus", (@convention(c) (Connection) -> CInt).self)(connection)
  }

  func socket(_ connection: Connection) -> CInt {
    self.function("PQsocket", (@convention(c) (Connection) -> CInt).self)(connection)
  }

  func execute(_ connection: Connection, _ query: String) {
    typealias Execute = @convention(c) (Connection, UnsafePointer<CChar>) -> OpaquePointer?
    _ = self.function("PQexec", Execute.self)(connection, query)
  }

  func message(_ connection: Connection) -> String {
    typealias Message = @convention(c) (Connection) -> UnsafePointer<CChar>
    return String(cString: self.function("PQerrorMessage", Message.self)(connection))
  }

  func finish(_ connection: Connection) {
    self.function("PQfinish", (@convention(c) (Connection) -> Void).self)(connection)
  }
}
