import Glibc
import TestKit
import TestTraits
import Testing

/// connd's metrics by HTTP, read by a real Prometheus.
@Suite("Metrics by HTTP", .needsNamespaces, .blocking)
struct MonitoringScenario {
  private static let isPrometheusAvailable = access("/usr/bin/promtool", X_OK) == 0
  private static let address = "127.0.0.1:9733"

  private func online() throws -> Laboratory {
    let lab = try Laboratory(configuration: "links: [{match: eth0, medium: wired}]")
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.startConnd()
    return lab
  }

  /// Starts the command of connd-metrics@.service for each connection, as systemd does.
  private func serve(_ lab: Laboratory) throws -> RunningCommand {
    try TestSize.needsAll("systemd")
    let unit = try Command.run(["cat", Checkout.path("systemd/connd-metrics@.service")])
    let line = try #require(unit.split(separator: "\n").first { $0.hasPrefix("ExecStart=") })
    let words = line.dropFirst("ExecStart=@bindir@/connctl ".count).split(separator: " ")
    let server = try lab.namespace.spawn(
      ["systemd-socket-activate", "--accept", "--inetd", "--listen=\(Self.address)"]
        + [Programs.connctl, "--socket", lab.socket] + words.map(String.init))
    try waitUntil("the socket listens") { server.standardError.contains("Listening on") }
    return server
  }

  /// Sends bytes, in printf's notation, and returns the response.
  private func exchange(_ lab: Laboratory, _ request: String) throws -> RunningCommand {
    let script = #"exec 3<>"/dev/tcp/127.0.0.1/9733"; printf "$0" >&3; cat <&3"#
    return try lab.namespace.spawn(["bash", "-c", script, request])
  }

  @Test("a silent client gets 408 after 5 s, and does not delay the others")
  func silence() throws {
    let lab = try self.online()
    let server = try self.serve(lab)
    let silent = try self.exchange(lab, "")
    try waitUntil("its connctl runs") { server.standardError.contains("Spawned") }
    let other = try self.exchange(lab, #"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"#)
    let response = try other.remainingOutput(within: .seconds(4))
    #expect(response.hasPrefix("HTTP/1.1 200 OK\r\n"), "\(response)")
    #expect(response.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"))
    #expect(response.contains("\nconnd_category{category=\"wired\"} 1\n"))
    #expect(try silent.remainingOutput().hasPrefix("HTTP/1.1 408 Request Timeout\r\n"))
  }

  @Test("20 silent clients occupy nothing → another client gets the metrics")
  func idleClients() throws {
    let lab = try self.online()
    let program = try Python.path("Tests/Programs/python/accepts.py")
    let server = try lab.namespace.spawn(
      program + [
        Checkout.path("systemd/connd-metrics.socket"), Programs.connctl, "--socket", lab.socket,
        "metrics", "--http",
      ])
    #expect(try server.nextLine() == "listening")
    let script = #"exec 3<>"/dev/tcp/127.0.0.1/9733"; echo connected; exec cat <&3"#
    let silent = try (0..<20).map { _ in try lab.namespace.spawn(["bash", "-c", script]) }
    for client in silent { #expect(try client.nextLine() == "connected") }
    let response = try self.exchange(lab, #"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"#)
      .remainingOutput(within: .seconds(20))
    #expect(response.hasPrefix("HTTP/1.1 200 OK\r\n"), "\(response)")
    withExtendedLifetime(silent) {}
  }

  @Test("a request of 20 kB gets its whole refusal, and connd's absence gives 503")
  func refusals() throws {
    let lab = try self.online()
    let server = try self.serve(lab)
    defer { _ = try? server.terminate() }
    let long = String(repeating: "a", count: 20_000)
    let refusal = try self.exchange(lab, #"GET /metrics HTTP/1.1\r\nHost: \#(long)\r\n\r\n"#)
    let response = try refusal.remainingOutput()
    #expect(response.hasPrefix("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "\(response)")
    #expect(response.hasSuffix("the request is longer than 8192 bytes\n"))
    #expect(try lab.connd?.terminate() == 0)
    let alone = try self.exchange(lab, #"GET /metrics HTTP/1.0\r\n\r\n"#).remainingOutput()
    #expect(alone.hasPrefix("HTTP/1.1 503 Service Unavailable\r\n"), "\(alone)")
    #expect(alone.contains("\r\n\r\nconnd is not running: "))
  }

  @Test(
    "a real Prometheus reads the category, each query of the dashboard, and the alerts",
    .enabled(if: Self.isPrometheusAvailable, "prometheus is not installed"))
  func prometheus() throws {
    let lab = try self.online()
    let server = try self.serve(lab)
    defer { _ = try? server.terminate() }
    let flow = try GuardedFlow(lab, to: "192.0.2.1")
    let prometheus = try self.startPrometheus(lab)
    defer { _ = try? prometheus.terminate() }
    try self.expect(#"connd_category{category="wired"} == 1"#, in: lab)
    try self.expect(#"up{job="connd"} == 1"#, in: lab)
    try self.expect("connd_guarded_flows == 1", in: lab)
    // Without a path, this metric is absent.
    let ofPaths = try self.dashboardQueries().filter { $0.contains("path_info") }
    for query in ofPaths { try self.expect(query, in: lab) }

    try lab.outside.ip("link set eth0 down")
    _ = try flow.invalidation()
    try self.expect(#"connd_category{category="none"} == 1"#, in: lab)
    try self.expect(#"ALERTS{alertname="ConndOffline", alertstate="pending"}"#, in: lab)
    try self.expect("connd_flow_invalidations_total", in: lab)
    // The rules' tests begin with these values.
    try self.expect(#"connd_refutations_total{reason="betterPath"} == 0"#, in: lab)
    try self.expect(#"connd_limits_hit_total{limit="flows"} == 0"#, in: lab)
    for query in try self.dashboardQueries() where !ofPaths.contains(query) {
      // On a busy machine a scrape may fail, and then nothing has a value for a moment.
      try self.expect(query, in: lab)
    }

    #expect(try lab.connd?.terminate() == 0)
    try self.expect(#"up{job="connd"} == 0"#, in: lab)
    try self.expect(#"ALERTS{alertname="ConndDown", alertstate="pending"}"#, in: lab)
  }

  /// Starts Prometheus with the project's configuration, in a hurry.
  private func startPrometheus(_ lab: Laboratory) throws -> RunningCommand {
    let configuration = try Command.run(["cat", Checkout.path("config/monitoring/prometheus.yml")])
    let global =
      "global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\n"
    try lab.directory.write(global + configuration, to: "prometheus.yml")
    let rules = try Command.run(["cat", Checkout.path("config/monitoring/connd.rules.yml")])
    try lab.directory.write(rules, to: "connd.rules.yml")
    return try lab.namespace.spawn([
      "prometheus", "--config.file=\(lab.directory.path)/prometheus.yml",
      "--storage.tsdb.path=\(lab.directory.path)/data", "--web.listen-address=127.0.0.1:9090",
      "--log.level=warn",
    ])
  }

  private func query(_ query: String, in lab: Laboratory) throws -> Command.Outcome {
    try Command.outcome(
      of: lab.namespace.wrapped(
        ["promtool", "query", "instant", "http://127.0.0.1:9090", query]))
  }

  /// Waits until a query has a result.
  private func expect(_ query: String, in lab: Laboratory) throws {
    try waitUntil("Prometheus has “\(query)”", within: .seconds(60)) {
      let result = try self.query(query, in: lab)
      return result.status == 0 && result.output.contains("=>")
    }
  }

  private func dashboardQueries() throws -> [String] {
    struct Dashboard: Decodable {
      struct Panel: Decodable { var targets: [Target] }
      struct Target: Decodable { var expr: String }
      var panels: [Panel]
    }
    let text = try Command.run(["cat", Checkout.path("config/monitoring/grafana-dashboard.json")])
    let dashboard: Dashboard = try decode(text)
    return dashboard.panels.flatMap(\.targets).map {
      $0.expr.replacing("$instance", with: ".*").replacing("$__rate_interval", with: "1m")
    }
  }

  @Test(
    "promtool: each alert is set off by its trouble and by nothing else",
    .enabled(if: Self.isPrometheusAvailable, "prometheus is not installed"))
  func alerts() throws {
    let tests = Checkout.path("Tests/Fixtures/monitoring/connd.rules.test.yml")
    let outcome = try Command.outcome(of: ["promtool", "test", "rules", tests])
    #expect(outcome.status == 0, "\(outcome.output)\(outcome.standardError)")
  }
}
