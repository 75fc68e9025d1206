import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol

/// The cost of a link now.
struct PresentCost {
  var link: String
  var isExpensive: Bool
  var isConstrained: Bool
  /// The evidence for the cost of the path, if the path uses the link.
  var evidence: CostEvidence?
}

extension PresentCost {
  fileprivate init(of link: String, _ explanation: Connectivity_V1_Explanation) {
    let path = explanation.path
    self.init(
      link: link, isExpensive: path.expensive, isConstrained: path.constrained,
      evidence: explanation.costEvidence)
  }
}

// A question about the cost, which changes nothing.
extension CostCommand {
  /// Shows the present state of a link, or of the link that traffic uses.
  func show(_ target: CostOptions.Target, through connector: Connector) async throws {
    if case .network(let name) = target {
      throw ValidationError(
        "add on, off or auto for the network “\(name)”; “connctl networks” lists the overrides")
    }
    let cost = try await self.answer(through: connector) { connd -> PresentCost? in
      let explanation = try await connd.call(ConndServices.Diagnostics.Explain.self)
      let path = explanation.path.chain.map(\.name)
      guard let name = target.link else {
        return path.first.map { PresentCost(of: $0, explanation) }
      }
      let link = try await Self.link(named: name, connd)
      return path.contains(link.name)
        ? PresentCost(of: link.name, explanation)
        : PresentCost(
          link: link.name, isExpensive: link.expensive, isConstrained: link.constrained)
    }
    let command = "connctl \(Self.configuration.commandName ?? "")"
    guard let cost else {
      self.console.remark("the machine is on no network: name a link, as in “\(command) wlan0”")
      throw ExitStatus.doesNotHold
    }
    try self.console.print([Self.present(cost).printable])
    self.console.hint("to change it: \(command) \(cost.link.shellWord) on|off|auto")
  }

  /// Returns a link that exists.
  ///
  /// - Throws: `ValidationError` that names a similar link or value.
  static func link(named name: String, _ connd: ConndServices) async throws -> Connectivity_V1_Link
  {
    let links = try await connd.links()
    guard let link = links.first(where: { $0.isNamed(name) }) else {
      throw CostOptions.notALink(name, links: links.map(\.name))
    }
    return link
  }
}
