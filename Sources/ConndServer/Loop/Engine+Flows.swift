import Connectivity
import ConnectivityRules

// The flows that clients guard.
extension Engine {
  /// Evaluates the next slice of the flows that are due.
  ///
  /// - Parameter isFinal: Whether flows are destroyed even if waiting messages may explain the
  ///   loss.
  mutating func evaluateFlows(
    _ kernel: any Kernel, isFinal: Bool, at now: Instant, clock: @escaping FlowTable.Clock
  ) throws(KernelUnavailable) -> FlowTable.Slice {
    self.context.subscriptions.gateways.now = now
    let slice = try self.context.read(kernel) { (view) throws(KernelUnavailable) in
      try self.flows.evaluate(
        FlowReader(
          self.reader, view, removals: self.flows.removals, awaitsRemadeLinks: true),
        policy: self.changes.policy,
        isFinal: isFinal, at: now, clock: clock)
    }
    self.noteExpiry(kernel, at: now)
    return slice
  }

  /// Handles clients' requests in their order. Registrations that the kernel cannot answer wait
  /// until it can.
  ///
  /// - Parameters:
  ///   - past: The published changes, oldest first.
  ///   - kernel: `nil` if it is unavailable.
  /// - Returns: The answers in the order of the requests, and the failure if the kernel became
  ///   unavailable.
  mutating func handle(
    _ requests: [GuardRequest], _ limits: Limits, past: [Published], _ kernel: (any Kernel)?,
    at now: Instant
  ) -> (answers: [GuardAnswer], failure: KernelUnavailable?) {
    var answers: [GuardAnswer] = []
    var failure: KernelUnavailable?
    if let kernel {
      do throws(KernelUnavailable) {
        try self.context.read(kernel) { (view) throws(KernelUnavailable) in
          let registrations = requests.compactMap(\.registration)
          let present = try RegistrationContext(
            registrations.map(\.question), FlowReader(self.reader, view),
            past: registrations.isEmpty ? [] : past)
          for request in requests {
            switch self.flows.admit(request, limits, at: now) {
            case .answer(let answer): answers.append(answer)
            case .register(let registration):
              answers.append(
                try self.flows.register(
                  registration, for: request, present, policy: self.changes.policy, at: now))
            }
          }
        }
      } catch {
        failure = error
      }
    }
    for request in requests.dropFirst(answers.count) {
      switch self.flows.admit(request, limits, at: now) {
      case .answer(let answer): answers.append(answer)
      case .register(let registration):
        answers.append(self.flows.registerLater(registration, for: request))
      }
    }
    return (answers, failure)
  }
}
