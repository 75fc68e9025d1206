import Connectivity
import Netlink

/// Links that no path can depend on, so that what happens to them needs no reading (T3), and in time not even to be heard: on
/// a machine with containers they come and go all the time.
///
/// The kernel makes a link without addresses and without routes. Whatever leads to it after that is told: a route that may
/// hold a destination of somebody's passes the filter, an address has a message of its own, and so has the link above it.
/// Who was there before connd listened is none of them, nor is anybody after an overrun.
struct UnusedLinks {
  private var links: Set<UInt32> = []
  /// Links that a path was seen to be made of.
  private var used: Set<UInt32> = []
  /// What waits to be read was sent when something may have been held back, or was lost.
  private var isBlind = true
  /// That began after the present reading did, whose end therefore says nothing.
  private var hasJustForgotten = false

  /// Links with a greater index are bystanders, too, and the kernel does not tell of them; `nil`: it tells of all.
  private var last: UInt32?
  /// Of those the ones that something has led to, or may have.
  private var led: Set<UInt32> = []
  /// The link that was made last, as far as was told: the kernel goes on from there.
  private var newest: UInt32 = 0
  /// Whether the kernel's filter holds back what may matter by now, so that it has to be set and all to be read again.
  private(set) var filterIsTooNarrow = false
  /// How many messages were read for nothing.
  private var vain = 0
  /// How many it takes for later links not to be heard. All that there are have to be listed then, which costs as much as a
  /// thousand messages where there are thousands: so what does not last is tried ever more rarely.
  private var patience = 16
  private static let mostPatience = 1024

  /// Where more are led to, as by a server's tunnels, those that there are by then are listed anew.
  private static let mostLed = 64
  /// A filter that names more costs more than it saves.
  private static let mostNamed = 128

  /// What the kernel's filter is to hold back.
  var unheard: UnheardLinks? {
    guard let last, self.led.count + self.used.count <= Self.mostNamed else { return nil }
    let except = self.led.union(self.used.filter { $0 > last })
    return UnheardLinks(above: last, except: except.sorted(), masters: self.used.sorted())
  }

  /// Whether too much is heard of links that do not matter: ``ignore(after:)`` ends that.
  var areLoud: Bool { self.last == nil && !self.isBlind && self.vain >= self.patience }

  /// They shall be heard no more, if they come after all the links that there are.
  ///
  /// - Parameter present: the indexes of these; `nil` where they cannot be listed now.
  mutating func ignore(after present: [UInt32]?) {
    self.patience = min(2 * self.patience, Self.mostPatience)
    (self.last, self.led, self.vain) = (nil, [], 0)
    guard let present, let greatest = present.max() else { return }
    // Some have an index that is far ahead: they brought it along from another namespace, or were given it.
    let ahead = present.filter { $0 > self.newest }
    let isFew = self.newest > 0 && ahead.count <= Self.mostLed
    (self.last, self.led) = isFew ? (self.newest, Set(ahead)) : (greatest, [])
  }

  /// The filter is as it is to be, and what it held back before is about to be read.
  ///
  /// - Returns: whether it held back what may matter.
  mutating func acceptFilter() -> Bool {
    defer { self.filterIsTooNarrow = false }
    return self.filterIsTooNarrow
  }

  /// Paths are made of these.
  mutating func use(_ links: some Sequence<UInt32>) {
    // Nobody knows which of the others are its ports.
    for link in links where self.used.insert(link).inserted { self.doubtAll() }
  }

  /// The filter is about to pass more than before, and of links all. What it held back may lead anywhere, and is yet to be
  /// read by whoever needs it.
  mutating func hearAll() {
    let wasTooNarrow = self.filterIsTooNarrow
    self.forget()
    self.filterIsTooNarrow = wasTooNarrow
  }

  /// Something may have led to them untold: what the filter held back before, or what was lost.
  mutating func forget() {
    self.doubtAll()
    (self.isBlind, self.hasJustForgotten) = (true, true)
  }

  private mutating func doubtAll() {
    // What was said of them meanwhile is lost.
    if self.last != nil {
      (self.filterIsTooNarrow, self.isBlind, self.hasJustForgotten) = (true, true, true)
    }
    (self.links, self.last, self.led, self.vain) = ([], nil, [], 0)
  }

  /// What was told so far is about to be read.
  mutating func beginToDrain() { self.hasJustForgotten = false }

  /// All that was told is read.
  mutating func endDraining() { self.isBlind = self.hasJustForgotten }

  /// Whether messages may concern somebody's path; they are to be passed in their order, and all of them.
  mutating func mayMatter(_ events: [KernelEvent]) -> Bool {
    var anyMatters = false
    for event in events {
      if self.mayMatter(event) { anyMatters = true } else { self.vain += 1 }
    }
    return anyMatters
  }

  private mutating func mayMatter(_ event: KernelEvent) -> Bool {
    switch event {
    case .link(let link):
      if link.isNew { self.newest = link.index }
      if link.isNew, !self.isBlind, !self.used.contains(link.index), !self.isUnheard(link.index) {
        self.links.insert(link.index)
      }
      // When it leaves its master, the message does not say which one that was.
      if link.master.map(self.used.contains) ?? false { self.lead(to: link.index) }
      return !self.contains(link.index)
    case .linkRemoved(let link):
      let isBystander = self.contains(link.index)
      self.used.remove(link.index)
      self.led.remove(link.index)
      self.links.remove(link.index)
      return !isBystander
    case .address(let address), .addressRemoved(let address):
      // One that is not good for its link alone may be taken for the source on another; to IPv4 they all are.
      if address.address.family == .ipv4 || !address.address.isLinkLocal {
        self.lead(to: address.link)
      }
      return !self.contains(address.link)
    case .route(let change, _), .routeRemoved(let change):
      if let link = change.outLink { self.lead(to: link) } else { self.forget() }
      return true
    case .nexthop, .nexthopRemoved, .overrun, .malformed:
      self.forget()
      return true
    case .wireless(let change): return !self.contains(change.link)
    case .rule, .ruleRemoved, .neighbour, .bridgeEntry, .setting: return true
    }
  }

  private func contains(_ link: UInt32) -> Bool {
    self.links.contains(link) || self.isUnheard(link)
  }

  private func isUnheard(_ link: UInt32) -> Bool {
    guard let last, link > last else { return false }
    return !self.used.contains(link) && !self.led.contains(link)
  }

  /// The link is a bystander no more.
  private mutating func lead(to link: UInt32) {
    self.links.remove(link)
    guard self.isUnheard(link) else { return }
    self.led.insert(link)
    self.filterIsTooNarrow = true
    if self.led.count > Self.mostLed { self.doubtAll() }
  }
}
