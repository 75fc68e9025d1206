import Connectivity
import ConnectivityRules

@testable import ConndServer

/// The paths of the flow in the model network.
extension GuardedFlow {
  /// The local port of its socket, or `nil` if it names none.
  var port: UInt16? { self.flow.namesSocket ? self.flow.destination.transport?.localPort : nil }

  func isForbidden(_ path: KernelPath) -> Bool { self.flow.forbidsExpensive && path.isMetered }

  func isForbidden(in network: ModelNetwork) -> Bool { self.isForbidden(self.ownPath(in: network)) }

  var question: Destination {
    var question = self.flow.destination
    question.source = self.made?.source ?? self.flow.local
    return question
  }

  /// The way of the flow's packets.
  func ownPath(in network: ModelNetwork) -> KernelPath { network.path(to: self.question) }

  /// The path that its client must know.
  func shown(in network: ModelNetwork) -> KernelPath { network.path(to: self.question) }

  static func prefix(_ path: KernelPath) -> IPPrefix? {
    path.source.flatMap { source in
      path.sourcePrefixLength.flatMap { IPPrefix(source, length: $0) }
    }
  }
}
