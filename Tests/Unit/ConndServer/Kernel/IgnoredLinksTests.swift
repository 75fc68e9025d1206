import Connectivity
import Netlink
import Testing

@testable import ConndServer

/// T3: which messages require a reading of the kernel.
@Suite("Links that no path depends on")
final class IgnoredLinksTests {
  private var ignoredLinks = IgnoredLinks()
  private let linkLocal: IPAddress
  private let linkLocal4: IPAddress
  private let global: IPAddress
  private let all: IPPrefix

  init() throws {
    self.linkLocal = try #require(IPAddress("fe80::1"))
    self.linkLocal4 = try #require(IPAddress("169.254.20.10"))
    self.global = try #require(IPAddress("192.0.2.1"))
    self.all = try #require(IPPrefix(.unspecified(.ipv4), length: 0))
    self.ignoredLinks.endDraining()
  }

  private func mayMatter(_ events: [KernelEvent]) -> Bool { self.ignoredLinks.mayMatter(events) }
  private func acceptFilter() -> Bool { self.ignoredLinks.acceptFilter() }

  private func link(_ index: UInt32, isNew: Bool = false, master: UInt32? = nil) -> KernelEvent {
    var link = Link(index: index, name: "veth\(index)", master: master)
    link.isNew = isNew
    return .link(link)
  }

  private func removed(_ index: UInt32) -> KernelEvent {
    .linkRemoved(Link(index: index, name: "veth\(index)"))
  }

  private func address(_ text: IPAddress, on link: UInt32) -> KernelEvent {
    .address(Address(text, prefixLength: 64, link: link))
  }

  private func route(by link: UInt32?) -> KernelEvent {
    let route = MatchedRoute(prefix: self.all, table: 254, priority: 0)
    return .route(RouteChange(route, outLink: link, gateway: nil), replaced: false)
  }

  /// An event that may have made any link reachable.
  private func leadAnywhere(_ what: String) throws {
    let events: [String: KernelEvent] = [
      "several": self.route(by: nil), "nexthop": .nexthop(id: 1), "overrun": .overrun,
      "malformed": .malformed(""),
    ]
    if what == "missed" { return self.ignoredLinks.forget() }
    #expect(self.mayMatter([try #require(events[what])]))
  }

  @Test("T3 a container's link appears, is used and disappears → no reading")
  func container() {
    let events = [
      self.link(7, isNew: true), self.link(7), self.link(7, master: 3),
      self.address(self.linkLocal, on: 7), self.removed(7),
    ]
    #expect(!self.mayMatter(events))
    // Its index may now belong to another link.
    #expect(self.mayMatter([self.link(7)]))
  }

  @Test("E2 tc may redirect any link's traffic to an ifb → each change of one matters")
  func redirection() {
    var ifb = Link(index: 7, name: "ifb4eth0", kind: "ifb")
    ifb.isNew = true
    #expect(self.mayMatter([.link(ifb)]))
    ifb.isNew = false
    #expect(self.mayMatter([.link(ifb)]))
    // Also if connd no longer hears of other new links.
    self.ignoredLinks.ignore(after: [1, 2])
    _ = self.ignoredLinks.acceptFilter()
    #expect(!self.mayMatter([self.link(8, isNew: true)]))
    #expect(self.mayMatter([.link(ifb)]))
    #expect(self.mayMatter([.linkRemoved(ifb)]))
  }

  @Test("T3 a link that existed before connd listened may matter")
  func old() {
    #expect(self.mayMatter([self.link(7)]))
    #expect(self.mayMatter([self.removed(7)]))
    #expect(self.mayMatter([self.address(self.linkLocal, on: 7)]))
  }

  @Test(
    "T3 a link that something leads to may matter",
    arguments: [
      "route", "address", "IPv4 link-local", "path", "several", "nexthop", "overrun", "missed",
      "malformed",
    ])
  func led(_ what: String) throws {
    #expect(!self.mayMatter([self.link(7, isNew: true), self.link(7)]))
    switch what {
    case "route": #expect(self.mayMatter([self.route(by: 7)]))
    case "address": #expect(self.mayMatter([self.address(self.global, on: 7)]))
    // The scope is global by default, so that other links may borrow the address.
    case "IPv4 link-local":
      #expect(self.mayMatter([self.address(self.linkLocal4, on: 7)]))
    case "path": self.ignoredLinks.use([7])
    default: try self.leadAnywhere(what)
    }
    #expect(self.mayMatter([self.link(7)]))
  }

  @Test("T3 another link's route does not make the link matter")
  func unrelated() {
    #expect(self.mayMatter([self.link(7, isNew: true), self.route(by: 2)]))
    #expect(!self.mayMatter([self.link(7)]))
  }

  @Test("K6 a port of a link that is part of a path may matter")
  func port() {
    self.ignoredLinks.use([3])
    #expect(!self.mayMatter([self.link(7, isNew: true), self.link(7)]))
    #expect(self.mayMatter([self.link(7, master: 3)]))
    // It leaves.
    #expect(self.mayMatter([self.link(7)]))
  }

  @Test("K6 a link becomes part of a path → it may already have ports")
  func laterMaster() {
    #expect(!self.mayMatter([self.link(7, isNew: true), self.link(7, master: 3)]))
    self.ignoredLinks.use([3])
    #expect(self.mayMatter([self.link(7)]))
  }

  @Test("I7 messages read before the next full reading may concern any link")
  func blind() {
    self.ignoredLinks.beginToDrain()
    self.ignoredLinks.forget()
    #expect(self.mayMatter([self.link(7, isNew: true)]))
    // Messages sent before the reset may still be unread.
    self.ignoredLinks.endDraining()
    #expect(self.mayMatter([self.link(9, isNew: true)]))
    self.ignoredLinks.beginToDrain()
    self.ignoredLinks.endDraining()
    #expect(self.mayMatter([self.link(7)]))
    #expect(!self.mayMatter([self.link(8, isNew: true)]))
  }

  // MARK: Filtered links

  /// Repeats events until the links are loud. Link 200 is the newest.
  private func becomeUnheard() {
    let noise = [self.link(200, isNew: true)] + Array(repeating: self.link(200), count: 15)
    #expect(!self.ignoredLinks.areLoud)
    #expect(!self.mayMatter(noise))
    #expect(self.ignoredLinks.areLoud)
    self.ignoredLinks.ignore(after: [1, 200, 190])
    #expect(!self.ignoredLinks.areLoud)
  }

  @Test("T3 many links come and go → later ones are filtered out")
  func unheard() {
    self.becomeUnheard()
    // Messages sent before the filter was set.
    let late = [self.link(201, isNew: true), self.link(202), self.removed(202)]
    #expect(!self.mayMatter(late))
    #expect(self.mayMatter([self.link(199)]))
    #expect(!self.ignoredLinks.filterIsTooNarrow)
  }

  @Test(
    "T3 links cannot be listed → the next attempt takes twice as many messages, at most 1024"
  )
  func unlisted() {
    #expect(!self.mayMatter([self.link(9, isNew: true)]))
    for patience in [16, 32, 64, 128, 256, 512, 1024, 1024] {
      #expect(!self.ignoredLinks.areLoud)
      #expect(!self.mayMatter(Array(repeating: self.link(9), count: patience)))
      #expect(self.ignoredLinks.areLoud)
      self.ignoredLinks.ignore(after: nil)
      #expect(self.ignoredLinks.unheard == nil)
    }
  }

  @Test("T3 an index far ahead is an exception in the filter, and does not raise its limit")
  func ahead() {
    self.ignoredLinks.use([3])
    #expect(!self.mayMatter([self.link(200, isNew: true)]))
    self.ignoredLinks.ignore(after: [1, 3, 5000, 200])
    #expect(self.ignoredLinks.unheard == UnheardLinks(above: 200, except: [5000], masters: [3]))
    #expect(!self.mayMatter([self.link(201, isNew: true)]))
    #expect(self.mayMatter([self.link(5000)]))
    // With many such links, the limit is theirs, and new links pass until they are further ahead.
    self.ignoredLinks.ignore(after: [1, 3, 200] + Array(5000..<5100))
    #expect(self.ignoredLinks.unheard == UnheardLinks(above: 5099, masters: [3]))
  }

  @Test("D6 a filter that passes all links again misses nothing that needs a reading")
  func hearAll() {
    self.becomeUnheard()
    self.ignoredLinks.hearAll()
    #expect(self.ignoredLinks.unheard == nil)
    #expect(!self.acceptFilter())
    // Messages sent before the filter changed may still be unread.
    #expect(self.mayMatter([self.link(201, isNew: true)]))
  }

  @Test(
    "D6 a filtered link became reachable, then the filter was opened → a reading follows"
  )
  func hearAllAfterLead() {
    self.becomeUnheard()
    #expect(self.mayMatter([self.address(self.global, on: 205)]))
    self.ignoredLinks.hearAll()
    #expect(self.acceptFilter())
  }

  @Test(
    "T3 something leads to a filtered link → it passes the filter",
    arguments: ["route", "address", "port"])
  func heardAgain(_ what: String) {
    self.ignoredLinks.use([3])
    self.becomeUnheard()
    switch what {
    case "route": #expect(self.mayMatter([self.route(by: 205)]))
    case "address": #expect(self.mayMatter([self.address(self.global, on: 205)]))
    default: #expect(self.mayMatter([self.link(205, master: 3)]))
    }
    #expect(self.ignoredLinks.unheard == UnheardLinks(above: 200, except: [205], masters: [3]))
    #expect(self.ignoredLinks.filterIsTooNarrow)
    #expect(self.acceptFilter())
    #expect(!self.acceptFilter())
    #expect(self.mayMatter([self.link(205)]))
    #expect(!self.mayMatter([self.link(206)]))
    // Its index may now belong to another link.
    #expect(self.mayMatter([self.removed(205)]))
    #expect(self.ignoredLinks.unheard == UnheardLinks(above: 200, masters: [3]))
  }

  @Test(
    "I7 any link may have become reachable → all links pass the filter again",
    arguments: ["path", "several", "nexthop", "overrun", "missed", "malformed"])
  func allHeardAgain(_ what: String) throws {
    self.becomeUnheard()
    if what == "path" { self.ignoredLinks.use([205]) } else { try self.leadAnywhere(what) }
    #expect(self.ignoredLinks.unheard == nil)
    #expect(self.acceptFilter())
    #expect(self.mayMatter([self.link(205)]))
    // Messages sent before the filter changed may still be unread.
    #expect(self.mayMatter([self.link(206, isNew: true)]))
  }

  @Test("D7 very many filtered links become reachable → the links are listed again")
  func manyLed() {
    self.becomeUnheard()
    for link in 201..<300 as Range<UInt32> {
      #expect(self.mayMatter([self.address(self.global, on: link)]))
    }
    #expect(self.ignoredLinks.unheard == nil)
    #expect(self.acceptFilter())
  }

  @Test("D7 a filter that would name too many links passes all of them")
  func manyUsed() {
    self.ignoredLinks.use(1...129)
    self.becomeUnheard()
    #expect(self.ignoredLinks.unheard == nil)
    #expect(!self.ignoredLinks.areLoud)
  }
}
