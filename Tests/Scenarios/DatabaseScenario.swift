import Glibc
import TestKit
import TestTraits
import Testing

/// A real PostgreSQL server, and a client that knows nothing of networks.
@Suite(
  "Databases", .needsNamespaces, .blocking,
  .enabled(if: Users.areMany, "only one user exists here"))
struct DatabaseScenario {
  private static let port = 5432
  private static let programs = "/usr/lib/postgresql/15/bin"

  /// A server outside that accepts every client.
  private func server(_ bench: CallBench) throws -> RunningCommand {
    try TestSize.needsAll("PostgreSQL")
    let directory = bench.lab.directory
    directory.open()
    let data = "\(directory.path)/database"
    try Command.run(["install", "-d", "-o", "postgres", data])
    // PostgreSQL refuses to run as root.
    func asPostgres(_ command: String) -> [String] {
      ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "sh", "-c", command]
    }
    try Command.run(
      asPostgres(
        "\(Self.programs)/initdb --pgdata \(data) --auth trust --no-sync >/dev/null"
          + " && echo 'host all all 0.0.0.0/0 trust' >>\(data)/pg_hba.conf"),
      within: .seconds(60))
    let server = try bench.lab.outside.spawn(
      asPostgres(
        "exec \(Self.programs)/postgres -D \(data) -k \(data) -h \(CallBench.server)"
          + " -p \(Self.port) -c fsync=off 2>&1"))
    try server.line { $0.contains("ready to accept connections") }
    return server
  }

  private func query(_ bench: CallBench, _ arguments: [String] = []) throws -> RunningCommand {
    let query = try bench.lab.namespace.spawn(
      [try Programs.callprobe, "query", "--socket", bench.lab.socket]
        + ["--target", "\(CallBench.server):\(Self.port)"] + arguments)
    let open: CallReport? = try query.nextLine().map { try decode($0) }
    #expect(open?.event == "open", "\(String(describing: open))")
    return query
  }

  @Test(
    "C10 the cable is pulled → a guarded query ends, an unguarded one hangs")
  func cablePulled() throws {
    let bench = try CallBench(["eth0"])
    let server = try self.server(bench)
    let guarded = try self.query(bench)
    let unguarded = try self.query(bench, ["--unguarded"])
    let moment = CallProbe.now
    try bench.lab.outside.ip("link set eth0 down")
    let end: CallReport? = try guarded.nextLine().map { try decode($0) }
    #expect(end?.event == "ended")
    // libpq's own error text.
    #expect(end?.message?.contains("closed the connection") == true, "\(String(describing: end))")
    print("query: ended after \(Duration.nanoseconds(Int64(end?.at ?? 0) - Int64(moment)))")
    #expect(try guarded.wait() == 0)
    // The other query still waits, because the kernel has not reported anything to it.
    let state = try bench.lab.namespace.run("ss", "-Htn", "state", "established")
    #expect(state.contains("\(CallBench.server):\(Self.port)"))
    unguarded.signal(SIGKILL)
    try unguarded.wait()
    server.signal(SIGINT)
    try server.wait()
  }
}
