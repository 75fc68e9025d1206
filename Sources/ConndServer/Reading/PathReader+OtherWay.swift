import Connectivity
import ConnectivityRules

/// Reads the paths over other links' default routes when a client asks, or follows the path over a
/// link. They cost nothing otherwise.
///
/// Implements rules W5 and W6.
extension PathReader {
  /// Returns the best path to a destination over another link, and whether traffic may take it.
  func otherWay(
    to destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> OtherWay {
    if let objection = OtherWayRule.objection(to: destination) {
      return OtherWay(whyNot: objection)
    }
    let new = destination.ofNew
    let rule = OtherWayRule(
      leaving: try self.read(new, view), assist: self.classifier.overrides.assist?.isOn)
    if let objection = rule.objection { return OtherWay(whyNot: objection) }
    var candidates: [OtherWayRule.Candidate] = []
    for uplink in try self.uplinks(view) {
      var bound = new
      bound.outLink = uplink
      if let candidate = try view.unlessRefused({ () throws(KernelUnavailable) in
        try self.read(bound, view)
      }) {
        candidates.append(candidate)
      }
    }
    return rule.choice(among: candidates)
  }

  /// Returns why unbound connections may not use the path of traffic that is bound to a link, or
  /// `nil` if they may. Also returns `nil` for traffic that is not bound.
  func objection(
    toUsing destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> OtherWay.Reason? {
    guard destination.outLink != nil else { return nil }
    var unbound = destination.ofNew
    unbound.outLink = nil
    if let objection = OtherWayRule.objection(to: unbound) { return objection }
    view.subscriptions.use(try self.path(to: unbound, view).facts)
    let rule = OtherWayRule(
      leaving: try self.read(unbound, view), assist: self.classifier.overrides.assist?.isOn)
    return rule.objection(toUsing: try self.read(destination.ofNew, view))
  }

  /// Returns the path of new traffic to a destination, with the facts that decide about its use.
  private func read(
    _ destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> OtherWayRule.Candidate {
    let (path, facts) = try self.path(to: destination, view)
    guard case .route(let route) = facts.answer, route.kind == .unicast, route.table != 0 else {
      return OtherWayRule.Candidate(path, prefixLength: nil)
    }
    let entry = try view.entry(for: destination)?.route
    var answered = destination
    answered.source = route.source
    return OtherWayRule.Candidate(
      path, prefixLength: entry?.prefix.length, metric: entry?.priority ?? .max,
      isTunnelled: facts.firstTunnel != nil,
      isRoaming: facts.allLinks.contains { $0.modem?.isRoaming == true },
      dropsAnswers: destination.outLink == nil
        ? false : try view.refusesReplies(to: answered, by: route.outLink))
  }
}
