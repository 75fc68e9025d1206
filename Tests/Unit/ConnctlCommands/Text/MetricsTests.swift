import Connectivity
import ConnectivityProtocol
import TestKit
import Testing

@testable import ConnctlCommands

@Suite("connctl metrics")
struct MetricsTests {
  @Test("state and counters as OpenMetrics")
  func text() async throws {
    let metrics = try await connctl("metrics")
    #expect(metrics.status == 0)
    expectLines(
      metrics.screen.output.split(separator: "\n", omittingEmptySubsequences: false).map(
        String.init),
      """
      # HELP connd_category Whether this is the category of the machine's traffic.
      # TYPE connd_category gauge
      connd_category{category="none"} 0
      connd_category{category="wifi"} 1
      connd_category{category="cellular"} 0
      connd_category{category="wired"} 0
      connd_category{category="other"} 0
      connd_category{category="unknown"} 0
      # HELP connd_flag The reachability flags.
      # TYPE connd_flag gauge
      connd_flag{flag="reachable"} 1
      connd_flag{flag="connectionRequired"} 0
      connd_flag{flag="isWWAN"} 0
      # HELP connd_path_satisfied Whether the default path of the address family carries traffic.
      # TYPE connd_path_satisfied gauge
      connd_path_satisfied{family="ipv4"} 1
      connd_path_satisfied{family="ipv6"} 0
      # HELP connd_path_info The default path of the address family, while it is satisfied.
      # TYPE connd_path_info gauge
      connd_path_info{family="ipv4",interface="wlan0",medium="wifi",metered="no",validation="unknown"} 1
      # HELP connd_metered Whether the path costs money. Absent while that is unknown.
      # TYPE connd_metered gauge
      connd_metered 0
      # HELP connd_constrained Whether programs should save data on the path.
      # TYPE connd_constrained gauge
      connd_constrained 0
      # HELP connd_portal Whether the path's network has a captive portal, perhaps after the login.
      # TYPE connd_portal gauge
      connd_portal 0
      # HELP connd_build_info The version of the running connd.
      # TYPE connd_build_info gauge
      connd_build_info{version="0.0.9"} 1
      # HELP connd_generation The generation of the last published change.
      # TYPE connd_generation gauge
      connd_generation 17
      # HELP connd_category_change_time_seconds The Unix time of the last transition.
      # TYPE connd_category_change_time_seconds gauge
      # UNIT connd_category_change_time_seconds seconds
      connd_category_change_time_seconds 1795224300.123456
      # HELP connd_start_time_seconds The Unix time of connd's start.
      # TYPE connd_start_time_seconds gauge
      # UNIT connd_start_time_seconds seconds
      connd_start_time_seconds 1795224300.123456
      # HELP connd_kernel_losses Times that the kernel became unavailable.
      # TYPE connd_kernel_losses counter
      connd_kernel_losses_total 0
      # HELP connd_overruns Times that the kernel dropped messages.
      # TYPE connd_overruns counter
      connd_overruns_total 12
      # HELP connd_published Published changes.
      # TYPE connd_published counter
      connd_published_total{event="path"} 3
      connd_published_total{event="transition"} 104
      # HELP connd_refutations New connections that connd declared dead.
      # TYPE connd_refutations counter
      connd_refutations_total{reason="betterPath"} 5
      # HELP connd_subscribers Subscribers now.
      # TYPE connd_subscribers gauge
      connd_subscribers 2
      # EOF

      """)
  }

  @Test("Prometheus' older format names counters with their suffix, and has no unit and no end")
  func olderFormat() throws {
    var statistic = Connectivity_V1_Statistic()
    (statistic.name, statistic.value) = ("overruns", 12)
    let metrics = Metrics(.sample, [statistic], since: .sample, as: .prometheus)
    #expect(
      metrics.text.contains("\n# TYPE connd_overruns_total counter\nconnd_overruns_total 12\n"))
    #expect(!metrics.text.contains("# UNIT") && !metrics.text.contains("# EOF"))
  }

  @Test("V1 the link, cost and validation of the path, and a portal → labels, and a gauge")
  func path() throws {
    var status = ConnectivityStatus.sample
    status.ipv4.chain[0].name = "a\"b"
    status.ipv4.costsMoney = nil
    status.ipv4.validation = KernelPath.Validation(
      .unknown, .routerAdvertisement, portal: "https://portal.example/")
    let metrics = Metrics(.sample(17, status), [], since: .sample)
    let info = #"connd_path_info{family="ipv4",interface="a\"b",medium="wifi",metered="unknown","#
    #expect(metrics.text.contains(info + #"validation="unknown"} 1"#))
    #expect(metrics.text.contains("\nconnd_portal 1\n"))
    let offline = Metrics(.sample(17, .offline), [], since: .sample)
    #expect(!offline.text.contains("connd_path_info"))
  }

  @Test("alert rules and dashboard use only metrics that connctl has")
  func names() throws {
    let metrics = Metrics(.sample, [], since: .sample, version: "1")
    let gauges = metrics.text.matches(of: #/# TYPE (connd_\w+)/#).map { String($0.1) }
    // Whether one is a gauge or a counter shows in MonitoringScenario.
    let known = Set(gauges + Metrics.help.keys.flatMap { ["connd_\($0)", "connd_\($0)_total"] })
    for file in ["connd.rules.yml", "grafana-dashboard.json"] {
      let text = try Command.run(["cat", Checkout.path("config/monitoring/\(file)")])
      let used = Set(text.matches(of: #/connd_\w+/#).map { String($0.0) })
      #expect(!used.isEmpty && used.isSubset(of: known), "\(used.subtracting(known))")
    }
  }
}
