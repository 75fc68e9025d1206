import Connectivity
import Netlink
import Testing

@testable import ConndServer

/// T3: which messages need a reading of the kernel.
@Suite("Links that no path depends on")
final class UnusedLinksTests {
  private var unusedLinks = UnusedLinks()
  private let linkLocal: IPAddress
  private let linkLocal4: IPAddress
  private let global: IPAddress
  private let all: IPPrefix

  init() throws {
    self.linkLocal = try #require(IPAddress("fe80::1"))
    self.linkLocal4 = try #require(IPAddress("169.254.20.10"))
    self.global = try #require(IPAddress("192.0.2.1"))
    self.all = try #require(IPPrefix(.unspecified(.ipv4), length: 0))
    self.unusedLinks.endDraining()
  }

  private func mayMatter(_ events: [KernelEvent]) -> Bool { self.unusedLinks.mayMatter(events) }
  private func acceptFilter() -> Bool { self.unusedLinks.acceptFilter() }

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

  /// Something happens that may have led to any link.
  private func leadAnywhere(_ what: String) throws {
    let events: [String: KernelEvent] = [
      "several": self.route(by: nil), "nexthop": .nexthop(id: 1), "overrun": .overrun,
      "malformed": .malformed(""),
    ]
    if what == "missed" { return self.unusedLinks.forget() }
    #expect(self.mayMatter([try #require(events[what])]))
  }

  @Test("T3 a container's link comes, is used and goes, and nobody reads")
  func container() {
    let events = [
      self.link(7, isNew: true), self.link(7), self.link(7, master: 3),
      self.address(self.linkLocal, on: 7), self.removed(7),
    ]
    #expect(!self.mayMatter(events))
    // Its number may be another's.
    #expect(self.mayMatter([self.link(7)]))
  }

  @Test("T3 a link that was there before connd listened may matter")
  func old() {
    #expect(self.mayMatter([self.link(7)]))
    #expect(self.mayMatter([self.removed(7)]))
    #expect(self.mayMatter([self.address(self.linkLocal, on: 7)]))
  }

  @Test(
    "T3 a link to which something leads may matter",
    arguments: [
      "route", "address", "IPv4 link-local", "path", "several", "nexthop", "overrun", "missed",
      "malformed",
    ])
  func led(_ what: String) throws {
    #expect(!self.mayMatter([self.link(7, isNew: true), self.link(7)]))
    switch what {
    case "route": #expect(self.mayMatter([self.route(by: 7)]))
    case "address": #expect(self.mayMatter([self.address(self.global, on: 7)]))
    // Its scope is global, unless whoever adds it says otherwise: other links may borrow it.
    case "IPv4 link-local":
      #expect(self.mayMatter([self.address(self.linkLocal4, on: 7)]))
    case "path": self.unusedLinks.use([7])
    default: try self.leadAnywhere(what)
    }
    #expect(self.mayMatter([self.link(7)]))
  }

  @Test("T3 another link's route takes nothing from it")
  func unrelated() {
    #expect(self.mayMatter([self.link(7, isNew: true), self.route(by: 2)]))
    #expect(!self.mayMatter([self.link(7)]))
  }

  @Test("K6 a port of a link that paths are made of may matter")
  func port() {
    self.unusedLinks.use([3])
    #expect(!self.mayMatter([self.link(7, isNew: true), self.link(7)]))
    #expect(self.mayMatter([self.link(7, master: 3)]))
    // It leaves.
    #expect(self.mayMatter([self.link(7)]))
  }

  @Test("K6 a link that paths are made of from now on may have ports already")
  func laterMaster() {
    #expect(!self.mayMatter([self.link(7, isNew: true), self.link(7, master: 3)]))
    self.unusedLinks.use([3])
    #expect(self.mayMatter([self.link(7)]))
  }

  @Test("I7 what is read of before all is read again may have been led to")
  func blind() {
    self.unusedLinks.beginToDrain()
    self.unusedLinks.forget()
    #expect(self.mayMatter([self.link(7, isNew: true)]))
    // What was sent before it may be unread.
    self.unusedLinks.endDraining()
    #expect(self.mayMatter([self.link(9, isNew: true)]))
    self.unusedLinks.beginToDrain()
    self.unusedLinks.endDraining()
    #expect(self.mayMatter([self.link(7)]))
    #expect(!self.mayMatter([self.link(8, isNew: true)]))
  }

  // MARK: Unheard

  /// Something goes on until they are loud, while link 200 is the newest.
  private func becomeUnheard() {
    let noise = [self.link(200, isNew: true)] + Array(repeating: self.link(200), count: 15)
    #expect(!self.unusedLinks.areLoud)
    #expect(!self.mayMatter(noise))
    #expect(self.unusedLinks.areLoud)
    self.unusedLinks.ignore(after: [1, 200, 190])
    #expect(!self.unusedLinks.areLoud)
  }

  @Test("T3 where many links come and go, later ones are not heard")
  func unheard() {
    self.becomeUnheard()
    // What was sent before the filter was there.
    let late = [self.link(201, isNew: true), self.link(202), self.removed(202)]
    #expect(!self.mayMatter(late))
    #expect(self.mayMatter([self.link(199)]))
    #expect(!self.unusedLinks.filterIsTooNarrow)
  }

  @Test(
    "T3 where links cannot be listed, it takes twice as much until that is tried once more, a thousand at most"
  )
  func unlisted() {
    #expect(!self.mayMatter([self.link(9, isNew: true)]))
    for patience in [16, 32, 64, 128, 256, 512, 1024, 1024] {
      #expect(!self.unusedLinks.areLoud)
      #expect(!self.mayMatter(Array(repeating: self.link(9), count: patience)))
      #expect(self.unusedLinks.areLoud)
      self.unusedLinks.ignore(after: nil)
      #expect(self.unusedLinks.unheard == nil)
    }
  }

  @Test("T3 a link whose number is far ahead does not make those heard that come after the last")
  func ahead() {
    self.unusedLinks.use([3])
    #expect(!self.mayMatter([self.link(200, isNew: true)]))
    self.unusedLinks.ignore(after: [1, 3, 5000, 200])
    #expect(self.unusedLinks.unheard == UnheardLinks(above: 200, except: [5000], masters: [3]))
    #expect(!self.mayMatter([self.link(201, isNew: true)]))
    #expect(self.mayMatter([self.link(5000)]))
    // With many of them, those that come are heard until they are further ahead.
    self.unusedLinks.ignore(after: [1, 3, 200] + Array(5000..<5100))
    #expect(self.unusedLinks.unheard == UnheardLinks(above: 5099, masters: [3]))
  }

  @Test("D6 a filter that lets all links pass from now on misses nothing that has to be read again")
  func hearAll() {
    self.becomeUnheard()
    self.unusedLinks.hearAll()
    #expect(self.unusedLinks.unheard == nil)
    #expect(!self.acceptFilter())
    // What was sent before it may be unread.
    #expect(self.mayMatter([self.link(201, isNew: true)]))
  }

  @Test(
    "D6 what led to an unheard link before is read again, although the filter lets all pass meanwhile"
  )
  func hearAllAfterLead() {
    self.becomeUnheard()
    #expect(self.mayMatter([self.address(self.global, on: 205)]))
    self.unusedLinks.hearAll()
    #expect(self.acceptFilter())
  }

  @Test(
    "T3 an unheard link is heard when something leads to it",
    arguments: ["route", "address", "port"])
  func heardAgain(_ what: String) {
    self.unusedLinks.use([3])
    self.becomeUnheard()
    switch what {
    case "route": #expect(self.mayMatter([self.route(by: 205)]))
    case "address": #expect(self.mayMatter([self.address(self.global, on: 205)]))
    default: #expect(self.mayMatter([self.link(205, master: 3)]))
    }
    #expect(self.unusedLinks.unheard == UnheardLinks(above: 200, except: [205], masters: [3]))
    #expect(self.unusedLinks.filterIsTooNarrow)
    #expect(self.acceptFilter())
    #expect(!self.acceptFilter())
    #expect(self.mayMatter([self.link(205)]))
    #expect(!self.mayMatter([self.link(206)]))
    // Its number may be another's.
    #expect(self.mayMatter([self.removed(205)]))
    #expect(self.unusedLinks.unheard == UnheardLinks(above: 200, masters: [3]))
  }

  @Test(
    "I7 all links are heard again when something may lead to any",
    arguments: ["path", "several", "nexthop", "overrun", "missed", "malformed"])
  func allHeardAgain(_ what: String) throws {
    self.becomeUnheard()
    if what == "path" { self.unusedLinks.use([205]) } else { try self.leadAnywhere(what) }
    #expect(self.unusedLinks.unheard == nil)
    #expect(self.acceptFilter())
    #expect(self.mayMatter([self.link(205)]))
    // What was sent before it may be unread.
    #expect(self.mayMatter([self.link(206, isNew: true)]))
  }

  @Test("D7 where very many are led to, those that there are by then are listed anew")
  func manyLed() {
    self.becomeUnheard()
    for link in 201..<300 as Range<UInt32> {
      #expect(self.mayMatter([self.address(self.global, on: link)]))
    }
    #expect(self.unusedLinks.unheard == nil)
    #expect(self.acceptFilter())
  }

  @Test("D7 a filter that would name too many links lets all through")
  func manyUsed() {
    self.unusedLinks.use(1...129)
    self.becomeUnheard()
    #expect(self.unusedLinks.unheard == nil)
    #expect(!self.unusedLinks.areLoud)
  }
}
