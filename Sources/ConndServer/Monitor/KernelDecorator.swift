import Connectivity
import Netlink

/// A kernel that stands before another one, and passes on what it does not deal with itself.
protocol KernelDecorator: Kernel {
  var source: any Kernel { get }
}

extension KernelDecorator {
  var fileDescriptor: CInt { self.source.fileDescriptor }

  var hasMessages: Bool { self.source.hasMessages }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    try self.source.drain(into: &events)
  }

  func route(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    try self.source.route(to: destination)
  }

  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    try self.source.routes(to: destinations)
  }

  func match(for destination: Destination) throws(KernelUnavailable) -> MatchedRoute? {
    try self.source.match(for: destination)
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    try self.source.link(index)
  }

  func hasAddress(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Bool {
    try self.source.hasAddress(address, on: link)
  }

  func address(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Address? {
    try self.source.address(address, on: link)
  }

  func forgetAddresses() { self.source.forgetAddresses() }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    try self.source.neighbour(address, on: link)
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] { try self.source.links() }

  func linkIndexes() throws(KernelUnavailable) -> [UInt32] { try self.source.linkIndexes() }

  func addresses() throws(KernelUnavailable) -> [Address] { try self.source.addresses() }

  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Netlink.Rule] {
    try self.source.rules(family)
  }

  func watch(_ watched: Watched) throws(KernelUnavailable) { try self.source.watch(watched) }
}
