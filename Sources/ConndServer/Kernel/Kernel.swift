import Connectivity
import ConnectivityRules
import Netlink

/// The only interface between the monitor loop and the kernel: its events and its current state.
///
/// `NetlinkKernel` is the real implementation. Tests use a model of a kernel. Every call may throw
/// `KernelUnavailable`; connd then reopens the kernel.
protocol Kernel {
  /// Becomes readable when the kernel has sent a message; -1 if it cannot be waited for.
  var fileDescriptor: CInt { get }

  /// Whether the kernel has sent a message since `drain`.
  var hasMessages: Bool { get }

  /// Appends the events since the last call.
  ///
  /// - Returns: Whether more may be waiting.
  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool

  /// Makes the next query wait until the kernel has completed every change that it has announced,
  /// even if the socket filter dropped the message. The kernel announces some changes before it
  /// makes them, and a route lookup does not wait for them (K2).
  func waitForChanges() throws(KernelUnavailable)

  /// Subscribes to the messages that are needed, and to as few others as possible.
  func watch(_ watched: FilterSpec) throws(KernelUnavailable)

  /// Answers a question about the current state.
  ///
  /// - Throws: An error with `isOfOneQuestion` if the kernel refuses only this question.
  func ask(_ question: KernelQuestion) throws(KernelUnavailable) -> KernelReply

  /// Returns how long the routes answered since the last call remain valid, or `nil` if they are
  /// valid until a kernel message.
  func takeExpiry() -> Duration?

  /// Begins to list all links in parts, because a machine may have thousands.
  func beginListing() throws(KernelUnavailable) -> LinkParts
}

/// Reads the next links of a listing, as ``LinkDump`` does.
typealias LinkParts = () throws(KernelUnavailable) -> LinkDump.Part<[LinkFacts]>

extension Kernel {
  func beginListing() -> LinkParts {
    { () throws(KernelUnavailable) in .links(try self.links(), isLast: true) }
  }
}

/// The reason why the kernel cannot be queried.
struct KernelUnavailable: Error, Hashable, CustomStringConvertible {
  var description: String
  /// Whether the kernel refused only one query. Everything that depends on the answer is unknown
  /// until the query is repeated. All else stays as it was (K8).
  var isOfOneQuestion = false
}

extension KernelUnavailable {
  static let notOpen = KernelUnavailable(
    description: "netlink cannot be opened; see connd's log")
}
