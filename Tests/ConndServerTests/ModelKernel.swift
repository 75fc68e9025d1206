import Connectivity
import Netlink

@testable import ConndServer

/// A kernel that a test writes down.
final class ModelKernel: Kernel {
  var fileDescriptor: CInt { -1 }
  var hasMessages: Bool { !self.untold.isEmpty }
  func forgetAddresses() {}
  var routes: [(prefix: IPPrefix, route: RouteAnswer)] = []
  /// What is sent from an address goes this way (`ip rule from …`).
  var pinned: [IPAddress: RouteAnswer] = [:]
  /// What is bound to a link goes this way.
  var bound: [UInt32: RouteAnswer] = [:]
  var linkTable: [UInt32: LinkFacts] = [:]
  /// Addresses that no link has.
  var missing: Set<IPAddress> = []
  /// Addresses that a link does not have.
  var absent: [UInt32: Set<IPAddress>] = [:]
  /// Addresses that links have no longer, of which the kernel has not told yet.
  var leaving: Set<IPAddress> = []
  /// What `addresses` lists.
  var addressTable: [Address] = []
  var neighbours: [IPAddress: Neighbour] = [:]
  /// Called before each answer about a neighbour.
  var onNeighbour: (IPAddress) -> Void = { _ in }
  var isGone: Bool {
    get { self.failure != nil }
    set { self.failure = newValue ? KernelUnavailable(description: "gone") : nil }
  }
  /// Why nothing is answered; what it has to tell it tells if that is passing.
  var failure: KernelUnavailable?
  /// What it still has to tell, each reading of it once; what a reading tells of happens by then.
  var untold: [() -> [KernelEvent]] = []
  private var happening: [Int: () -> Void] = [:]
  /// How often something was asked.
  private(set) var questions = 0
  private(set) var watched = Watched()

  /// Something happens when so many more questions were answered, before the next one.
  func happens(after questions: Int, _ happen: @escaping () -> Void) {
    self.happening[self.questions + questions + 1] = happen
  }

  private func ask() throws(KernelUnavailable) {
    self.questions += 1
    self.happening.removeValue(forKey: self.questions)?()
    if let failure = self.failure { throw failure }
  }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    if let failure = self.failure, !failure.isPassing { throw failure }
    guard !self.untold.isEmpty else { return false }
    events += self.untold.removeFirst()()
    return !self.untold.isEmpty
  }

  func route(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    try self.ask()
    if let link = destination.outLink { return self.bound[link] ?? .noRoute(.noRoute) }
    if let source = destination.source, let answer = self.pinned[source] { return answer }
    let matches = self.routes.filter { $0.prefix.contains(destination.address) }
    return matches.max { $0.prefix.length < $1.prefix.length }?.route ?? .noRoute(.noRoute)
  }

  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    var answers: [RouteAnswer] = []
    for destination in destinations { answers.append(try self.route(to: destination)) }
    return answers
  }

  func match(for destination: Destination) throws(KernelUnavailable) -> MatchedRoute? {
    try self.ask()
    return IPPrefix(destination.address, length: 0).map {
      MatchedRoute(prefix: $0, table: 254, priority: 0)
    }
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    try self.ask()
    return self.linkTable[index]
  }

  func address(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Address? {
    try self.ask()
    if self.missing.contains(address) || self.absent[link]?.contains(address) == true { return nil }
    return Address(address, prefixLength: 24, link: link)
  }

  func hasAddress(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Bool {
    if self.leaving.contains(address) { return false }
    return try self.address(address, on: link) != nil
  }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    try self.ask()
    self.onNeighbour(address)
    return self.neighbours[address]
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] { Array(self.linkTable.values) }
  func linkIndexes() throws(KernelUnavailable) -> [UInt32] {
    try self.ask()
    return Array(self.linkTable.keys)
  }
  func addresses() throws(KernelUnavailable) -> [Address] { self.addressTable }
  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Netlink.Rule] { [] }

  func watch(_ watched: Watched) throws(KernelUnavailable) {
    try self.ask()
    self.watched = watched
  }
}
