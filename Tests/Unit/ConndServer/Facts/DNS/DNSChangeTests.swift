import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

/// How the loop turns the DNS files into changes.
@Suite("DNS changes")
struct DNSChangeTests {
  @Test(
    "T4 DNS settings are compared with the published ones, and every change names its cause")
  func dns() throws {
    func settings(_ servers: String..., search: [String] = []) -> DNSSettings {
      DNSSettings(servers: servers.compactMap { DNSSettings.Server($0) }, search: search)
    }
    func told(_ loop: TestLoop) -> [String] {
      loop.loop.feed.store.past.compactMap { published in
        guard case .dns(let change) = published.change else { return nil }
        let late = change.cause.learntLate ? " late" : ""
        return "\(change.generation) \(change.cause.change)\(late)"
      }
    }
    var loop = try TestLoop()
    loop.dns.updates = [.dns(settings("192.0.2.53"))]
    loop.loop.start()
    // The first settings are part of the first snapshot, not a change.
    #expect(told(loop) == [])
    #expect(loop.loop.feed.store.snapshot.dns == settings("192.0.2.53"))

    _ = loop.turn(sources: .dns)
    #expect(told(loop) == [])
    loop.dns.updates = [.dns(settings("192.0.2.53", search: ["lan"]))]
    _ = loop.turn(sources: .dns)
    loop.dns.updates = [.dns(settings("192.0.2.54", search: ["example.org"]))]
    _ = loop.turn(sources: .dns)
    // An unreadable file changes nothing.
    loop.dns.updates = []
    _ = loop.turn(sources: .dns)
    let first = loop.loop.feed.store.past.first?.change.generation ?? 0
    #expect(told(loop) == ["\(first + 1) searchChanged", "\(first + 2) serversChanged"])
    #expect(loop.loop.feed.store.snapshot.dns == settings("192.0.2.54", search: ["example.org"]))
    #expect(loop.count("published", "dns") == 2)

    // The status in a transition keeps the DNS settings.
    loop.kernel.setState(of: 2, .down)
    _ = loop.tell()
    let last = loop.loop.feed.store.past.compactMap(\.change.snapshot).last
    #expect(last?.dns == settings("192.0.2.54", search: ["example.org"]))
    #expect(last?.status.category == NetworkCategory.offline)

    // connd restarts and finds other settings.
    let store = Store(loop.loop.feed.store.past)
    #expect(store.snapshot.dns == settings("192.0.2.54", search: ["example.org"]))
    var next = Engine(Configuration(), restored: store.snapshot)
    #expect(
      next.update(
        to: settings("192.0.2.54", search: ["example.org"]), learntLate: true,
        time: WallTime(microseconds: 0)) == [])
    let late = next.update(
      to: settings("192.0.2.55"), learntLate: true, time: WallTime(microseconds: 0))
    #expect(late.map(\.generation) == [store.snapshot.generation + 1])
  }
}
