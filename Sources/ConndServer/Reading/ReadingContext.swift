import Connectivity

/// The state that one reading of the kernel passes to the next: the subscriptions for paths, and
/// the answers that stay valid until a message.
struct ReadingContext {
  var subscriptions = KernelSubscriptions()
  /// The links that belong to a modem.
  var modems = ModemCache()
  var wireless = WirelessCache()
  /// The last query that the kernel refused since ``takeRefusal()``, or `nil` if it refused none.
  private(set) var refusal: KernelUnavailable?

  /// Queries the kernel, and keeps the subscriptions and answers of the reading. Nothing else may
  /// add to the context, except the links of default routes that a client's query has listed.
  mutating func read<Answer>(
    _ kernel: any Kernel, _ reading: (KernelView) throws(KernelUnavailable) -> Answer
  ) throws(KernelUnavailable) -> Answer {
    try self.read(KernelView(kernel, self), reading)
  }

  /// Continues a reading. The context must not have changed since the reading's first part.
  mutating func read<Answer>(
    _ view: KernelView, _ reading: (KernelView) throws(KernelUnavailable) -> Answer
  ) throws(KernelUnavailable) -> Answer {
    // If both this context and the view kept the sets, the first addition would copy them.
    self = ReadingContext()
    defer { self = view.used }
    return try reading(view)
  }

  /// Returns the last query that the kernel has refused since the previous call, or `nil` if it has
  /// refused none. Everything that depends on its answer is unknown until a step repeats it.
  mutating func takeRefusal() -> KernelUnavailable? {
    defer { self.refusal = nil }
    return self.refusal
  }

  mutating func note(refusal: KernelUnavailable) { self.refusal = refusal }

  /// Updates from kernel messages.
  mutating func note(_ events: [KernelEvent]) {
    self.subscriptions.note(events)
    for event in events {
      self.modems.note(event)
      self.wireless.note(event)
    }
  }
}
