import Connectivity
import Testing

@testable import ConnctlCommands

@Suite("HTTP requests for the metrics")
struct MetricsRequestTests {
  /// The result of a request: the format, with `head ` before it for HEAD, or the status.
  private func result(_ head: String, hosts: [String] = []) -> String {
    do {
      let request = try MetricsRequest(head: head, hosts: hosts)
      return "\(request.isHead ? "head " : "")\(request.format)"
    } catch {
      return String(error.status.prefix(3))
    }
  }

  @Test(
    "request line and fields → the format, or a status",
    arguments: [
      ("GET /metrics HTTP/1.1\r\nHost: localhost", "prometheus"),
      ("GET /metrics HTTP/1.1\nHost: localhost", "prometheus"),
      ("GET /metrics HTTP/1.0", "prometheus"),
      ("HEAD /metrics HTTP/1.1\r\nhost:localhost", "head prometheus"),
      ("GET /metrics?collect=x HTTP/1.1\r\nHost: localhost", "prometheus"),
      ("GET http://localhost:9733/metrics HTTP/1.1\r\nHost: localhost", "prometheus"),
      ("GET / HTTP/1.1\r\nHost: localhost", "404"),
      ("GET /metrics/ HTTP/1.1\r\nHost: localhost", "404"),
      ("GET http://localhost HTTP/1.1\r\nHost: localhost", "404"),
      ("OPTIONS * HTTP/1.1\r\nHost: localhost", "404"),
      ("POST /metrics HTTP/1.1\r\nHost: localhost", "405"),
      ("GET /metrics HTTP/1.1", "400"),
      ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: b", "400"),
      ("GET /metrics", "400"), ("", "400"), ("GET  /metrics HTTP/1.1\r\nHost: localhost", "400"),
      ("G\u{7F}T /metrics HTTP/1.1\r\nHost: localhost", "400"),
      ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n folded", "400"),
      ("GET /metrics HTTP/1.1\r\nHost : localhost", "400"),
      ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n: b", "400"),
      ("GET /metrics HTTP/2.0\r\nHost: localhost", "505"),
      ("PRI * HTTP/2.0", "505"),
      ("\u{16}\u{3}\u{1}", "400"),
    ])
  func requests(head: String, expected: String) {
    #expect(self.result(head) == expected)
  }

  @Test(
    "the host is an address, localhost or configured → the metrics; it is another name → 421",
    arguments: [
      ("localhost", "prometheus"), ("LocalHost:9733", "prometheus"), ("127.0.0.1", "prometheus"),
      ("10.0.0.7:9733", "prometheus"), ("[::1]:9733", "prometheus"), ("[fe80::1]", "prometheus"),
      ("machine.example:9733", "prometheus"), ("evil.example", "421"), ("evil.example:9733", "421"),
      ("machine.example.evil", "421"), ("127.0.0.1.evil.example", "421"), ("localhost.evil", "421"),
      ("[evil.example]", "421"), ("", "421"),
    ])
  func hosts(host: String, expected: String) {
    let names = ["Machine.example"]
    let request = "GET /metrics HTTP/1.1\r\nHost: \(host)"
    #expect(self.result(request, hosts: names) == expected)
    if !host.isEmpty {
      let target = "GET http://\(host)/metrics HTTP/1.1\r\nHost: localhost"
      #expect(self.result(target, hosts: names) == expected)
    }
  }

  @Test(
    "Accept → OpenMetrics only if the client prefers it",
    arguments: [
      // Prometheus 2.42, 3.0, and a collector of OpenTelemetry.
      (
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
          + "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "openMetrics"
      ),
      (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
          + "text/plain;version=0.0.4;q=0.3,*/*;q=0.2", "openMetrics"
      ),
      ("text/plain;version=0.0.4;q=0.9, application/openmetrics-text;q=0.2", "prometheus"),
      ("APPLICATION/OpenMetrics-Text ; Version=1.0.0 ; Q=1", "openMetrics"),
      ("application/openmetrics-text;version=0.0.1", "prometheus"),
      ("application/openmetrics-text;q=0", "prometheus"),
      ("application/openmetrics-text;q=many", "prometheus"),
      ("text/html,application/xhtml+xml,*/*;q=0.8", "prometheus"),
      ("*/*", "prometheus"), ("", "prometheus"), (",;,=", "prometheus"),
    ])
  func formats(accept: String, expected: String) {
    #expect(
      self.result("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: \(accept)") == expected)
    let lines = accept.split(separator: ",").map { "\r\naccept:\($0)" }.joined()
    #expect(self.result("GET /metrics HTTP/1.1\r\nHost: localhost\(lines)") == expected)
  }

  @Test("a response has its date, length and type, and for HEAD no body")
  func response() {
    let response = HTTPResponse(HTTPRefusal.otherMethod)
    let time = WallTime(microseconds: 1_795_224_300_123_456)
    let head = """
      HTTP/1.1 405 Method Not Allowed\r
      Date: Sat, 21 Nov 2026 01:25:00 GMT\r
      Content-Type: text/plain; charset=utf-8\r
      Content-Length: 32\r
      Allow: GET, HEAD\r
      Connection: close\r
      \r\n
      """
    #expect(response.text(at: time, withBody: false) == head)
    #expect(
      response.text(at: time, withBody: true) == head + "the metrics answer GET and HEAD\n")
  }
}
