import Connectivity
import Netlink

/// The kernel behind the two netlink sockets, and the devices in sysfs. Owned by the monitor's thread.
final class NetlinkKernel: Kernel {
  private let listener: Listener
  private let requester: Requester
  private let devices: DeviceReader
  /// What sysfs said about devices of hardware: it never changes as long as the link exists under its name. (What is
  /// below a stack does, so stacks are not remembered.)
  private var known: [UInt32: (name: String, device: Device)] = [:]

  /// How many events are read before they are acted upon, however many more wait.
  private static let batch = 4096

  /// - Parameter adopting: a netlink socket that systemd passed.
  init(
    watching destinations: [IPAddress], adopting descriptor: CInt? = nil, sysfs: String = "/sys"
  ) throws(KernelUnavailable) {
    do throws(NetlinkError) {
      self.listener =
        if let descriptor {
          try Listener(adopting: descriptor, watching: destinations)
        } else {
          try Listener(watching: destinations)
        }
      self.requester = try Requester()
    } catch {
      throw KernelUnavailable(error)
    }
    self.devices = DeviceReader(root: sysfs)
  }

  /// What becomes readable when the kernel has told something.
  var fileDescriptor: CInt { self.listener.fileDescriptor }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    let first = events.count
    let mayHaveMore = try ask { () throws(NetlinkError) in
      try self.listener.drain(into: &events, limit: Self.batch)
    }
    for event in events[first...] {
      switch event {
      case .linkRemoved(let link): self.known[link.index] = nil
      case .overrun: self.known = [:]
      default: break
      }
    }
    return mayHaveMore
  }

  func route(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer {
    try ask { () throws(NetlinkError) in try self.requester.route(to: destination) }
  }

  func match(for destination: Destination) throws(KernelUnavailable) -> MatchedRoute? {
    try ask { () throws(NetlinkError) in try self.requester.match(for: destination) }
  }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    try ask { () throws(NetlinkError) in try self.requester.link(index: index) }
      .map(self.withDevice)
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] {
    try ask { () throws(NetlinkError) in try self.requester.links() }.map(self.withDevice)
  }

  func address(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Address? {
    try ask { () throws(NetlinkError) in try self.requester.address(address, on: link) }
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    try ask { () throws(NetlinkError) in try self.requester.addresses(on: nil) }
  }

  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Netlink.Rule] {
    try ask { () throws(NetlinkError) in try self.requester.rules(family) }
  }

  func watch(_ destinations: [IPAddress]) throws(KernelUnavailable) {
    try ask { () throws(NetlinkError) in try self.listener.watch(destinations) }
  }

  private func withDevice(_ link: Link) -> LinkFacts {
    if let known = self.known[link.index], known.name == link.name {
      return LinkFacts(link, device: known.device)
    }
    let device = self.devices.device(of: link)
    if link.kind == nil { self.known[link.index] = (link.name, device) }
    return LinkFacts(link, device: device)
  }
}

private func ask<Answer>(
  _ question: () throws(NetlinkError) -> Answer
) throws(KernelUnavailable) -> Answer {
  do {
    return try question()
  } catch {
    throw KernelUnavailable(error)
  }
}

extension KernelUnavailable {
  fileprivate init(_ error: NetlinkError) {
    let hint = error.isPermission ? "; does a sandbox deny AF_NETLINK?" : ""
    self.init(description: "\(error)\(hint)")
  }
}
