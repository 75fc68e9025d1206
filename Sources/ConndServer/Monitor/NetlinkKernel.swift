import Connectivity
import ConnectivityRules
import Glibc
import Netlink

/// The kernel behind the netlink sockets of routing and of Wi-Fi, and the devices in sysfs. Owned by the monitor's thread.
final class NetlinkKernel: Kernel {
  private let listener: Listener
  private let requester: Requester
  /// `nil` where there is no generic netlink.
  private let wireless: NL80211?
  private let waiting: WaitSet?
  private let sockets: any SocketSource
  private let devices: DeviceReader
  /// What sysfs said about devices: it never changes as long as the link exists under its name. (What is below a stack
  /// does, so stacks are not remembered.)
  private var knownDevices: [UInt32: (name: String, device: Device)] = [:]
  private var unheard: UnheardLinks?
  /// Opened when the first question is asked, and again after one that failed.
  private var diagnosis: SocketDiagnosis?

  /// How many events are read before they are acted upon, however many more wait.
  private static let batch = 4096

  /// - Parameters:
  ///   - sockets: where its sockets come from.
  ///   - devices: what reads sysfs.
  init(
    watching watched: Watched, on sockets: any SocketSource, devices: DeviceReader
  ) throws(KernelUnavailable) {
    let listener: Listener
    do throws(NetlinkError) {
      listener = try Listener(on: sockets.open(.listener), watching: watched)
      self.requester = try Requester(on: sockets.open(.requester))
    } catch {
      throw KernelUnavailable(error)
    }
    self.listener = listener
    // Without it Wi-Fi is known by sysfs alone, and one network from another by its gateway.
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
    // That there is Wi-Fi is told before a link of Wi-Fi is: in this order none is read without it.
    let mayHaveMore = try ask { () throws(NetlinkError) in
      let hasRouting = try self.listener.drain(into: &events, limit: Self.batch)
      let hasWireless = try self.wireless?.drain(into: &events, limit: Self.batch) ?? false
      return hasRouting || hasWireless
    }
    for event in events[first...] {
      switch event {
      case .linkRemoved(let link): self.knownDevices[link.index] = nil
      case .overrun: self.knownDevices = [:]
      default: break
      }
    }
    return mayHaveMore
  }

  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer] {
    // Where many are asked for in turn, who was woken by what was published may wait for this very processor.
    if destinations.count > 8 { sched_yield() }
    return try ask { () throws(NetlinkError) in try self.requester.routes(to: destinations) }
  }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    // An error that the kernel answers with tells as little as no entry does.
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

  func links() throws(KernelUnavailable) -> [LinkFacts] {
    let links = try ask { () throws(NetlinkError) in try self.requester.links() }
    // Of some it is not told that they go.
    let present = Set(links.map(\.index))
    self.knownDevices = self.knownDevices.filter { present.contains($0.key) }
    return links.map(self.withDevice)
  }

  func addresses(
    with address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> [Address] {
    try ask { () throws(NetlinkError) in try self.requester.addresses(with: address, on: link) }
  }

  func addresses() throws(KernelUnavailable) -> [Address] {
    try ask { () throws(NetlinkError) in try self.requester.addresses(on: nil) }
  }

  /// Where nl80211 gives no answer routes can be asked for all the same.
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

  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Rule] {
    try ask { () throws(NetlinkError) in try self.requester.rules(family) }
  }

  func watch(_ watched: Watched) throws(KernelUnavailable) {
    if watched.unheard != self.unheard {
      // What is remembered of a link is no good once nothing is told of it.
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

/// The answer, or `nil` if the kernel refuses the question.
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
