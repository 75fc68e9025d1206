import Glibc
import Systemd

/// A service on the system bus that connd queries and listens to, without ever blocking. The bus
/// may be absent or disappear. The service may come, go or hang, and any bus client may impersonate
/// it. Uses no timer.
///
/// Owned by the monitor thread.
final class BusService<Question: Hashable> {
  enum Event {
    /// The service has appeared under a new unique name, and does not know earlier queries.
    case came
    /// The service or the bus has gone.
    case gone
    /// The answer to a query. If it is an error, the message is empty.
    case answer(Question, BusMessage)
    case signal(BusMessage)
  }

  private let name: String
  private let rules: [String]
  private var bus: MessageBus?
  /// The unique name of the service. Only its signals are accepted, because any bus client can send
  /// signals to any other.
  private var owner: String?
  /// The call that asks for the unique name.
  private var ownerCall: UInt64?
  private var calls: [UInt64: Question] = [:]
  /// Whether a call could not be sent.
  private var isBroken = false

  private let daemon = "org.freedesktop.DBus"
  private let daemonPath = "/org/freedesktop/DBus"
  /// The maximum number of messages per turn, so that the bus cannot delay kernel messages.
  private let maxSteps = 64

  /// - Parameters:
  ///   - name: The service's name on the bus.
  ///   - signals: The signals to receive, as match rules without a sender.
  init(_ name: String, signals: [String]) {
    self.name = name
    self.rules =
      [
        "type='signal',sender='\(self.daemon)',path='\(self.daemonPath)',interface='\(self.daemon)',"
          + "member='NameOwnerChanged',arg0='\(name)'"
      ] + signals.map { "type='signal',sender='\(name)',\($0)" }
    self.connect()
  }

  /// The descriptor and its events for poll(2). The descriptor is -1 without a bus.
  var descriptor: pollfd {
    pollfd(fd: self.bus?.fileDescriptor ?? -1, events: self.bus?.events ?? 0, revents: 0)
  }
  /// When to continue even if the descriptor is not ready, or `nil` for never.
  var timeout: Duration? { self.bus?.timeout }

  var isThere: Bool { self.owner != nil }
  /// Whether nothing is pending: the service has answered all queries, or is known to be absent.
  var isSettled: Bool {
    self.bus == nil || self.ownerCall == nil && (self.owner == nil || self.calls.isEmpty)
  }

  /// The queries without an answer.
  var questions: some Collection<Question> { self.calls.values }

  /// Connects to the bus, unless it is already connected.
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

  /// Queries the service if it is on the bus.
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

  /// Drops the queries with answers that are no longer needed.
  func forget(where isForgotten: (Question) -> Bool) {
    self.calls = self.calls.filter { !isForgotten($0.value) }
  }

  /// Processes messages, up to the limit for one turn.
  func process(_ take: (Event) -> Void) {
    do throws(SystemdError) {
      for _ in 0..<self.maxSteps {
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
        // Without an owner, the bus answers with an error.
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

  /// Sets the unique name of the service. An empty name means that the service is absent.
  private func follow(_ owner: String, _ take: (Event) -> Void) {
    guard owner != self.owner ?? "" else { return }
    self.owner = owner.isEmpty ? nil : owner
    self.calls = [:]
    take(owner.isEmpty ? .gone : .came)
  }
}

extension BusValue {
  /// The name of a link, or `nil` if the name is invalid, such as the empty name of an absent link.
  var linkName: String? {
    if case .text(let text) = self, ResolvConf.isLinkName(text) { text } else { nil }
  }
}
