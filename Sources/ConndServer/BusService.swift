import Systemd

/// A service on the system bus that is heard and asked, and that nobody waits for: the bus may be absent or go, the service come, go or
/// hang, and anybody may say that he is it. There is no timer.
///
/// Owned by the monitor's thread.
final class BusService<Question: Hashable> {
  enum Event {
    /// The service is there, under a unique name that it had not before: it knows nothing of what was asked.
    case came
    /// There is none any more, or no bus.
    case gone
    /// That may be an error, which holds nothing.
    case answer(Question, BusMessage)
    case signal(BusMessage)
  }

  private let name: String
  private let rules: [String]
  private var bus: MessageBus?
  /// Its unique name: signals are believed from there only, for anybody may send one to whom he likes.
  private var owner: String?
  /// The call that asks for that name.
  private var ownerCall: UInt64?
  private var calls: [UInt64: Question] = [:]
  /// A call could not be sent.
  private var isBroken = false

  private let daemon = "org.freedesktop.DBus"
  private let daemonPath = "/org/freedesktop/DBus"
  /// However much is told, the kernel is heard in between.
  private let mostSteps = 64

  /// - Parameters:
  ///   - name: The service's, on the bus.
  ///   - signals: What the bus is to pass on of it, as match rules without a sender.
  init(_ name: String, signals: [String]) {
    self.name = name
    self.rules =
      [
        "type='signal',sender='\(self.daemon)',path='\(self.daemonPath)',interface='\(self.daemon)',"
          + "member='NameOwnerChanged',arg0='\(name)'"
      ] + signals.map { "type='signal',sender='\(name)',\($0)" }
    self.connect()
  }

  /// To be waited for, for `events` of poll(2); -1 where there is no bus.
  var fileDescriptor: CInt { self.bus?.fileDescriptor ?? -1 }
  var events: Int16 { self.bus?.events ?? 0 }
  /// After what time to go on although the descriptor says nothing; `nil`: not at all.
  var timeout: Duration? { self.bus?.timeout }

  var isThere: Bool { self.owner != nil }
  /// Whether nothing is awaited of it: it has answered what it was asked, or it is known not to be there.
  var isSettled: Bool {
    self.bus == nil || self.ownerCall == nil && (self.owner == nil || self.calls.isEmpty)
  }

  /// What has no answer yet.
  var questions: some Collection<Question> { self.calls.values }

  /// Looks for the bus, where it was not there.
  func connect() {
    guard self.bus == nil else { return }
    do throws(SystemdError) {
      let bus = try MessageBus()
      self.bus = bus
      for rule in self.rules {
        try bus.call(self.daemon, self.daemonPath, self.daemon, "AddMatch", [rule])
      }
      self.ownerCall = try bus.call(
        self.daemon, self.daemonPath, self.daemon, "GetNameOwner", [self.name])
    } catch {
      self.bus = nil
    }
  }

  /// Asks the service, where it is there.
  func ask(
    _ question: Question, _ path: String, _ interface: String, _ member: String,
    _ arguments: [String] = []
  ) {
    guard let bus = self.bus, let owner = self.owner else { return }
    do throws(SystemdError) {
      self.calls[try bus.call(owner, path, interface, member, arguments)] = question
    } catch {
      self.isBroken = true
    }
  }

  /// An answer to these is of no use any more.
  func forget(where isForgotten: (Question) -> Bool) {
    self.calls = self.calls.filter { !isForgotten($0.value) }
  }

  /// Deals with what was told, as much of it as is good for one turn.
  func process(_ take: (Event) -> Void) {
    do throws(SystemdError) {
      for _ in 0..<self.mostSteps {
        guard !self.isBroken, let bus = self.bus else { break }
        switch try bus.process() {
        case .idle: return
        case .worked: continue
        case .message(let message): self.take(message, take)
        }
      }
    } catch {
      self.isBroken = true
    }
    guard self.isBroken else { return }
    (self.bus, self.ownerCall, self.isBroken) = (nil, nil, false)
    self.follow("", take)
  }

  private func take(_ message: BusMessage, _ take: (Event) -> Void) {
    if let call = message.answeredCall {
      if call == self.ownerCall {
        self.ownerCall = nil
        // Without one the bus says so by an error.
        if !message.isError, let owner = message.readText() { self.follow(owner, take) }
      } else if let question = self.calls.removeValue(forKey: call) {
        take(.answer(question, message))
      }
    } else if message.isSignal(self.daemon, "NameOwnerChanged") {
      guard message.sender == self.daemon, message.readText() == self.name,
        message.readText() != nil, let owner = message.readText()
      else { return }
      self.follow(owner, take)
    } else if message.sender != nil, message.sender == self.owner {
      take(.signal(message))
    }
  }

  /// The service has this unique name from now on, or, where that is empty, none.
  private func follow(_ owner: String, _ take: (Event) -> Void) {
    guard owner != self.owner ?? "" else { return }
    self.owner = owner.isEmpty ? nil : owner
    self.calls = [:]
    take(owner.isEmpty ? .gone : .came)
  }
}

extension BusValue {
  /// The name of a link; `nil` where it can be none, as the empty one of a link that is not there.
  var linkName: String? {
    if case .text(let text) = self, ResolvConf.isLinkName(text) { text } else { nil }
  }
}
