import Connectivity
import ConnectivityRules
import Netlink

@testable import ConndServer

/// A kernel that can reopen its sockets.
protocol ReopenableKernel: Kernel {
  func reopen(_ watched: FilterSpec) throws(KernelUnavailable)
}

extension ReopenableKernel {
  var fileDescriptor: CInt { -1 }

  /// Always answers "not Wi-Fi", because nl80211 is missing.
  func wirelessLink(_ index: UInt32) throws(KernelUnavailable) -> WirelessAnswer { .notWireless }

  func wirelessSignal(_ index: UInt32) throws(KernelUnavailable) -> WirelessSignal? { nil }
}

/// A kernel that passes each query on to another, unless it answers the query itself.
protocol ForwardingKernel: ReopenableKernel {
  func ask<Answer>(
    _ question: (any Kernel) throws(KernelUnavailable) -> Answer
  ) throws(KernelUnavailable) -> Answer
}

extension ForwardingKernel {
  func waitForChanges() throws(KernelUnavailable) {
    try self.ask { kernel throws(KernelUnavailable) in try kernel.waitForChanges() }
  }

  func watch(_ watched: FilterSpec) throws(KernelUnavailable) {
    try self.ask { kernel throws(KernelUnavailable) in try kernel.watch(watched) }
  }

  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    try self.ask { kernel throws(KernelUnavailable) in try kernel.routes(to: destinations) }
  }

  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool {
    try self.ask { kernel throws(KernelUnavailable) in
      try kernel.refusesReplies(to: destination, by: link)
    }
  }

  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry? {
    try self.ask { kernel throws(KernelUnavailable) in try kernel.entry(for: destination) }
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    try self.ask { kernel throws(KernelUnavailable) in try kernel.link(index) }
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] {
    try self.ask { kernel throws(KernelUnavailable) in try kernel.links() }
  }

  func addresses(
    with address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> [Address] {
    try self.ask { kernel throws(KernelUnavailable) in
      try kernel.addresses(with: address, on: link)
    }
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    try self.ask { kernel throws(KernelUnavailable) in try kernel.addresses() }
  }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    try self.ask { kernel throws(KernelUnavailable) in try kernel.neighbour(address, on: link) }
  }

  func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> UInt32? {
    try self.ask { kernel throws(KernelUnavailable) in
      try kernel.bridgePort(of: hardwareAddress, on: bridge)
    }
  }

  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Rule] {
    try self.ask { kernel throws(KernelUnavailable) in try kernel.rules(family) }
  }
}
