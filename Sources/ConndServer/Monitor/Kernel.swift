import Connectivity
import Netlink

/// The one seam to the kernel: what happened, and what is true now.
///
/// The monitor's loop sees the kernel through this and nothing else. The real one is `NetlinkKernel`; in tests a model of a
/// kernel stands behind the same seam. Every call may throw `KernelUnavailable`, after which the kernel is opened anew.
protocol Kernel {
  /// Becomes readable when the kernel has told something; -1 where nobody waits for it.
  var fileDescriptor: CInt { get }

  /// Whether the kernel has told something since `drain`.
  var hasMessages: Bool { get }

  /// Appends what the kernel has told since the last call.
  ///
  /// - Returns: whether more may be waiting.
  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool

  /// The way to a destination.
  func route(to destination: Destination) throws(KernelUnavailable) -> RouteAnswer

  /// The ways to many destinations, in their order, for less than the same one by one.
  func routes(to destinations: [Destination]) throws(KernelUnavailable) -> [RouteAnswer]

  /// The entry of the routing tables that decides about a destination.
  func match(for destination: Destination) throws(KernelUnavailable) -> MatchedRoute?

  /// A link and its device; `nil` where there is none of that index.
  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts?

  /// Whether a link has an address at this moment.
  func hasAddress(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Bool

  /// An address as its link has it, or had it when the kernel last told of the link's addresses.
  func address(_ address: IPAddress, on link: UInt32) throws(KernelUnavailable) -> Address?

  /// Has addresses asked for anew that are remembered.
  func forgetAddresses()

  /// What the kernel knows of a neighbour; `nil` where that is nothing.
  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour?

  /// All links, for those who want to look at them.
  func links() throws(KernelUnavailable) -> [LinkFacts]

  /// The indexes of all links.
  func linkIndexes() throws(KernelUnavailable) -> [UInt32]

  /// All addresses.
  func addresses() throws(KernelUnavailable) -> [Address]

  /// The policy rules of a family, in their order.
  func rules(_ family: AddressFamily) throws(KernelUnavailable) -> [Netlink.Rule]

  /// Makes changes known of routes that may concern one of the destinations, and of no others but default routes; of gateways
  /// whose hardware address becomes another one; and of links, but for some.
  func watch(_ watched: Watched) throws(KernelUnavailable)
}

/// The kernel cannot be asked, and why.
struct KernelUnavailable: Error, Hashable, CustomStringConvertible {
  var description: String
  /// Only this question has no answer, because what it lists kept changing: it is to be asked again.
  var isPassing = false
}

extension KernelUnavailable {
  static let notOpen = KernelUnavailable(
    description: "netlink could not be opened; see connd's log")
}
