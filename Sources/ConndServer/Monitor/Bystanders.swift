import Connectivity

/// Links that no path can depend on, so that what happens to them needs no reading (T3): on a machine with containers they
/// come and go all the time.
///
/// The kernel makes a link without addresses and without routes. Whatever leads to it after that is told: a route that may
/// hold a destination of somebody's passes the filter, an address has a message of its own, and so has the link above it.
/// Who was there before connd listened is none of them, nor is anybody after an overrun. Owned by the monitor's thread.
final class Bystanders {
  private var links: Set<UInt32> = []
  /// Links that a path was seen to be made of.
  private var used: Set<UInt32> = []
  /// What waits to be read was sent when something may have been held back, or was lost.
  private var isBlind = true
  /// That began after the present reading did, whose end therefore says nothing.
  private var hasJustForgotten = false

  /// Paths are made of these.
  func use(_ links: some Sequence<UInt32>) {
    // Nobody knows which of the others are its ports.
    for link in links where self.used.insert(link).inserted { self.links = [] }
  }

  /// Something may have led to them untold: what the filter held back before, or what was lost.
  func forget() { (self.links, self.isBlind, self.hasJustForgotten) = ([], true, true) }

  /// What was told so far is about to be read.
  func beginsToDrain() { self.hasJustForgotten = false }

  /// All that was told is read.
  func isDrained() { self.isBlind = self.hasJustForgotten }

  /// Whether messages may concern somebody's path; they are to be passed in their order, and all of them.
  func mayMatter(_ events: [KernelEvent]) -> Bool {
    // Not `contains`: each may make or unmake one.
    events.reduce(false) { self.mayMatter($1) || $0 }
  }

  private func mayMatter(_ event: KernelEvent) -> Bool {
    switch event {
    case .link(let link):
      if link.isNew, !self.isBlind, !self.used.contains(link.index) {
        self.links.insert(link.index)
      }
      // When it leaves its master, the message does not say which one that was.
      if link.master.map(self.used.contains) ?? false { self.links.remove(link.index) }
      return !self.links.contains(link.index)
    case .linkRemoved(let link):
      self.used.remove(link.index)
      return self.links.remove(link.index) == nil
    case .address(let address), .addressRemoved(let address):
      // One that is not good for its link alone may be taken for the source on another; to IPv4 they all are.
      if address.address.family == .ipv4 || !address.address.isLinkLocal {
        self.links.remove(address.link)
      }
      return !self.links.contains(address.link)
    case .route(let change, _), .routeRemoved(let change):
      if let link = change.outLink { self.links.remove(link) } else { self.forget() }
      return true
    case .nexthop, .nexthopRemoved, .overrun, .malformed:
      self.forget()
      return true
    case .rule, .ruleRemoved, .neighbour: return true
    }
  }
}
