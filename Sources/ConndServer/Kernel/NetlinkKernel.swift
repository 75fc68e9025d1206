import Connectivity
import ConnectivityRules
import Glibc
import LinuxSupport
import Netlink

/// The kernel as seen through the netlink sockets for routing and Wi-Fi, and the devices in sysfs.
/// Owned by the monitor thread.
final class NetlinkKernel: Kernel {
  private let listener: Listener
  private let requester: Requester
  /// `nil` without generic netlink.
  private let wireless: NL80211?
  private let waiting: WaitSet?
  private let sockets: any SocketSource
  private let devices: DeviceReader
  /// The devices as sysfs describes them. A device never changes while the link exists under its
  /// name. Stacks are not remembered, because the links below them change.
  private var knownDevices: [UInt32: (name: String, device: Device)] = [:]
  private var unheard: UnheardLinks?
  /// Opened by the first query, and again by the next query after a failure.
  private var diagnosis: SocketDiagnosis?

  /// The number of events that are read before connd acts on them.
  private static let batch = 4096

  /// - Parameters:
  ///   - sockets: The source of the netlink sockets.
  ///   - devices: The reader of sysfs.
  init(
    watching watched: FilterSpec, on sockets: any SocketSource, devices: DeviceReader
  ) throws(KernelUnavailable) {
    let listener: Listener
    do throws(NetlinkError) {
      listener = try Listener(on: sockets.open(.listener), watching: watched)
      self.requester = try Requester(on: sockets.open(.requester))
    } catch {
      throw KernelUnavailable(error)
    }
    self.listener = listener
    // Without nl80211, only sysfs identifies Wi-Fi links, and networks are identified by their
    // gateways.
    let wireless = try? NL80211(from: sockets)
    self.wireless = wireless
    self.waiting = wireless.flatMap { WaitSet([listener.fileDescriptor, $0.fileDescriptor]) }
    self.sockets = sockets
    self.devices = devices
    self.unheard = watched.unheard
  }

  var fileDescriptor: CInt { self.waiting?.fileDescriptor ?? self.listener.fileDescriptor }

  var hasMessages: Bool { self.sockets.isReadable(self.fileDescriptor) }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    let first = events.count
    // The message that Wi-Fi exists arrives before the message about a Wi-Fi link. In this order,
    // no Wi-Fi link is read without it.
    let mayHaveMore = try ask { () throws(NetlinkError) in
      let hasRouting = try self.listener.drain(into: &events, limit: Self.batch)
      let hasWireless = try self.wireless?.drain(into: &events, limit: Self.batch) ?? false
      return hasRouting || hasWireless
    }
    for event in events[first...] {
      switch event {
      case .linkRemoved(let link): self.knownDevices[link.index] = nil
      // Its PPP session may have begun.
      case .link(let link) where link.kind == "ppp": self.knownDevices[link.index] = nil
      case .overrun: self.knownDevices = [:]
      default: break
      }
    }
    return mayHaveMore
  }

  func waitForChanges() { self.requester.waitForChanges() }

  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    // During a long series of lookups, a client that was woken by a publication may wait for this
    // processor.
    if destinations.count > 8 { sched_yield() }
    return try ask { () throws(NetlinkError) in try self.requester.routes(to: destinations) }
  }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    // A refusal says as little as a missing entry.
    try askOrNil { () throws(NetlinkError) in
      try self.requester.neighbour(address, on: link)
    }
  }

  func bridgePort(
    of hardwareAddress: [UInt8], on bridge: UInt32
  ) throws(KernelUnavailable) -> UInt32? {
    try askOrNil { () throws(NetlinkError) in
      try self.requester.bridgePort(of: hardwareAddress, on: bridge)
    }
  }

  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry? {
    try ask { () throws(NetlinkError) in try self.requester.match(for: destination) }
  }

  func refusesReplies(
    to destination: Destination, by link: UInt32
  ) throws(KernelUnavailable) -> Bool {
    try ask { () throws(NetlinkError) in
      try self.requester.refusesReplies(to: destination, by: link)
    }
  }

  func takeExpiry() -> Duration? { self.requester.takeExpiry() }

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    try ask { () throws(NetlinkError) in try self.requester.link(index: index) }
      .map(self.withDevice)
  }

  func link(named name: String) throws(KernelUnavailable) -> LinkFacts? {
    try askOrNil { () throws(NetlinkError) in try self.requester.link(named: name) }
      .map(self.withDevice)
  }

  func links() throws(KernelUnavailable) -> [LinkFacts] {
    let links = try ask { () throws(NetlinkError) in try self.requester.links() }
    // The kernel does not always report that a link was removed.
    let present = Set(links.map(\.index))
    self.knownDevices = self.knownDevices.filter { present.contains($0.key) }
    return links.map(self.withDevice)
  }

  func beginListing() throws(KernelUnavailable) -> LinkParts {
    let dump = try ask { () throws(NetlinkError) in
      try LinkDump(on: self.sockets.open(.linkDump))
    }
    return { () throws(KernelUnavailable) in
      switch try ask({ () throws(NetlinkError) in try dump.next() }) {
      case .links(let links, let isLast): .links(links.map(self.withDevice), isLast: isLast)
      case .restarted: .restarted
      }
    }
  }

  func addresses(
    with address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> [Address] {
    try ask { () throws(NetlinkError) in try self.requester.addresses(with: address, on: link) }
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    try ask { () throws(NetlinkError) in try self.requester.addresses(on: nil) }
  }

  /// Returns what nl80211 reports. Never throws: without an answer, routes can still be looked up.
  func wirelessLink(_ index: UInt32) -> WirelessAnswer {
    guard let wireless = self.wireless else { return .notWireless }
    return (try? wireless.link(index)) ?? .incomplete(nil)
  }

  func wirelessSignal(_ index: UInt32) -> WirelessSignal? { try? self.wireless?.signal(index) }

  func socketReports(on connections: [Destination]) -> [SocketReport?] {
    do throws(NetlinkError) {
      let diagnosis =
        if let diagnosis = self.diagnosis { diagnosis } else {
          try SocketDiagnosis(on: self.sockets.open(.socketDiagnosis))
        }
      self.diagnosis = diagnosis
      return try diagnosis.reports(on: connections)
    } catch {
      self.diagnosis = nil
      return connections.map { _ in nil }
    }
  }

  func translatesConnections() -> Bool { self.devices.translatesConnections() }

  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Rule] {
    try ask { () throws(NetlinkError) in try self.requester.rules(family) }
  }

  func watch(_ watched: FilterSpec) throws(KernelUnavailable) {
    if watched.unheard != self.unheard {
      // If connd receives no messages about a link, the stored data of its device may become
      // outdated.
      self.unheard = watched.unheard
      self.knownDevices = [:]
    }
    try ask { () throws(NetlinkError) in try self.listener.watch(watched) }
  }

  private func withDevice(_ link: Link) -> LinkFacts {
    if let known = self.knownDevices[link.index], known.name == link.name {
      return LinkFacts(link, device: known.device)
    }
    let facts = LinkFacts(link, device: self.devices.device(of: link))
    if !facts.isStacked { self.knownDevices[link.index] = (link.name, facts.device) }
    return facts
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

/// Returns the answer, or `nil` if the kernel refuses the query.
private func askOrNil<Answer>(
  _ question: () throws(NetlinkError) -> Answer?
) throws(KernelUnavailable) -> Answer? {
  do throws(KernelUnavailable) {
    return try ask(question)
  } catch {
    guard error.isOfOneQuestion else { throw error }
    return nil
  }
}

extension KernelUnavailable {
  fileprivate init(_ error: NetlinkError) {
    let hint = error.isPermission ? "; does a sandbox deny AF_NETLINK?" : ""
    self.init(description: "\(error)\(hint)", isOfOneQuestion: error.isAnswer)
  }
}
