import Connectivity
import Netlink

/// Links that no path can depend on. Events about these links need no reading (T3), and eventually
/// the socket filter drops them. On a machine with containers such links come and go all the time.
///
/// The kernel creates a link without addresses and routes. It reports everything that makes the
/// link reachable later: matching routes pass the filter, and addresses and upper links cause
/// messages. Links that predate the listener or the last overrun are never ignored. An ifb link is
/// never ignored either, because the kernel sends no message when tc redirects traffic to it.
struct IgnoredLinks {
  private enum State {
    /// No link is ignored, because messages were filtered or lost. Any link may have become
    /// reachable without a message.
    ///
    /// - isDraining: Whether the current drain began in this state. If so, the state ends with the
    ///   current drain, otherwise with the next drain.
    case blind(isDraining: Bool)
    /// The kernel reports all links. `vain` is the number of messages that did not matter.
    case learning(vain: Int)
    /// The kernel does not report links above an index. They are ignored, except links that may
    /// have become reachable.
    case filtering(above: UInt32, except: Set<UInt32>)
  }

  private var state = State.blind(isDraining: true)
  /// The ignored links. Empty in the state `blind`.
  private var links: Set<UInt32> = []
  /// Links that have been part of a path.
  private var used: Set<UInt32> = []
  /// The newest link that the kernel has reported. The kernel gives further links higher indexes.
  private var newest: UInt32 = 0
  /// Whether the socket filter drops messages that may matter. If so, connd must install a new
  /// filter and read everything again.
  private(set) var filterIsTooNarrow = false
  /// The number of irrelevant messages after which links created later are ignored. Ignoring
  /// requires a list of all links, which costs as much as a thousand messages if there are
  /// thousands of links. The number doubles each time, so that connd tries less often if ignoring
  /// does not last.
  private var threshold = 16
  private static let maxThreshold = 1024

  /// The maximum number of reachable links above the index. If there are more, such as a server's
  /// tunnels, connd lists the links again.
  private static let maxExceptions = 64
  /// The maximum number of links in the filter. A longer filter costs more than it saves.
  private static let maxNamed = 128

  /// The links about which the socket filter drops messages, or `nil` if it drops none.
  var unheard: UnheardLinks? {
    guard case .filtering(let above, let except) = self.state,
      except.count + self.used.count <= Self.maxNamed
    else { return nil }
    let all = except.union(self.used.filter { $0 > above })
    return UnheardLinks(above: above, except: all.sorted(), masters: self.used.sorted())
  }

  /// Whether there are so many irrelevant messages that ``ignore(after:)`` is worthwhile.
  var areLoud: Bool {
    if case .learning(let vain) = self.state { vain >= self.threshold } else { false }
  }

  /// Ignores links that are created after all present links.
  ///
  /// - Parameter present: The indexes of the present links, or `nil` if they cannot be listed now.
  mutating func ignore(after present: [UInt32]?) {
    self.threshold = min(2 * self.threshold, Self.maxThreshold)
    self.state = .learning(vain: 0)
    guard let present, let greatest = present.max() else { return }
    // Some links have an index far ahead, because it was set explicitly or kept from another
    // namespace.
    let ahead = present.filter { $0 > self.newest }
    let isFew = self.newest > 0 && ahead.count <= Self.maxExceptions
    self.state =
      isFew
      ? .filtering(above: self.newest, except: Set(ahead))
      : .filtering(above: greatest, except: [])
  }

  /// Notes that a new socket filter is installed.
  ///
  /// - Returns: Whether the old filter may have dropped messages that matter. Then all must be read
  ///   again.
  mutating func acceptFilter() -> Bool {
    defer { self.filterIsTooNarrow = false }
    return self.filterIsTooNarrow
  }

  /// Whether a path has used this link.
  func areUsing(_ link: UInt32) -> Bool { self.used.contains(link) }

  /// Adds links that paths use.
  mutating func use(_ links: some Sequence<UInt32>) {
    // Any ignored link might be a port of the newly used link, so start over.
    for link in links where self.used.insert(link).inserted { self.startOver() }
  }

  /// Prepares for a filter that passes more routes and all links. Messages that the old filter
  /// dropped may concern any link, and the caller still has to read the current state.
  mutating func hearAll() {
    self.links = []
    self.state = .blind(isDraining: false)
  }

  /// Starts over because a link may have become reachable without a message.
  mutating func forget() {
    self.startOver()
    self.state = .blind(isDraining: false)
  }

  private mutating func startOver() {
    self.links = []
    switch self.state {
    case .blind: break
    case .learning: self.state = .learning(vain: 0)
    case .filtering:
      // The socket filter has dropped messages about the ignored links.
      self.filterIsTooNarrow = true
      self.state = .blind(isDraining: false)
    }
  }

  /// Notes that a drain begins.
  mutating func beginToDrain() {
    if case .blind = self.state { self.state = .blind(isDraining: true) }
  }

  /// Notes that a drain has read all waiting messages.
  mutating func endDraining() {
    if case .blind(isDraining: true) = self.state { self.state = .learning(vain: 0) }
  }

  /// Whether messages may concern a client's path. The caller must pass all messages in their
  /// order.
  mutating func mayMatter(_ events: [KernelEvent]) -> Bool {
    var anyMatters = false
    for event in events {
      if self.mayMatter(event) {
        anyMatters = true
      } else if case .learning(let vain) = self.state {
        self.state = .learning(vain: vain + 1)
      }
    }
    return anyMatters
  }

  private mutating func mayMatter(_ event: KernelEvent) -> Bool {
    switch event {
    case .link(let link):
      if link.isNew { self.newest = link.index }
      if link.mayReceiveRedirections { return true }
      if link.isNew, !self.isBlind, !self.used.contains(link.index), !self.isUnheard(link.index) {
        self.links.insert(link.index)
      }
      // When a port leaves its master, the message does not name the master, so the port is noted
      // now.
      if link.master.map(self.used.contains) ?? false { self.lead(to: link.index) }
      return !self.contains(link.index)
    case .linkRemoved(let link):
      let isBystander = self.contains(link.index)
      self.used.remove(link.index)
      if case .filtering(let above, var except) = self.state, except.remove(link.index) != nil {
        self.state = .filtering(above: above, except: except)
      }
      self.links.remove(link.index)
      return !isBystander || link.mayReceiveRedirections
    case .address(let address), .addressRemoved(let address):
      // Any address except a link-local one may be the source on another link. An IPv4 link-local
      // address may be, too.
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
    case .signal(let change): return !self.contains(change.link)
    case .rule, .ruleRemoved, .neighbour, .bridgeEntry, .setting: return true
    }
  }

  private func contains(_ link: UInt32) -> Bool {
    self.links.contains(link) || self.isUnheard(link)
  }

  private var isBlind: Bool { if case .blind = self.state { true } else { false } }

  private func isUnheard(_ link: UInt32) -> Bool {
    guard case .filtering(let above, let except) = self.state, link > above else { return false }
    return !self.used.contains(link) && !except.contains(link)
  }

  /// Stops ignoring a link, because it may be reachable.
  private mutating func lead(to link: UInt32) {
    self.links.remove(link)
    guard self.isUnheard(link), case .filtering(let above, var except) = self.state else { return }
    except.insert(link)
    self.filterIsTooNarrow = true
    self.state = .filtering(above: above, except: except)
    if except.count > Self.maxExceptions { self.startOver() }
  }
}
