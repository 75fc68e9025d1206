public import Connectivity

extension Connectivity_V1_WatchResponse {
  /// Creates the message for a change.
  ///
  /// - Parameter networkNamespace: The inode of connd's namespace, or 0 if unknown.
  public init(_ change: ConnectivityChange, networkNamespace: UInt64 = 0) {
    self.init()
    self.generation = change.generation
    switch change {
    case .transition(let transition):
      self.transition = Connectivity_V1_Transition(transition, networkNamespace: networkNamespace)
    case .path(let change):
      self.path = Connectivity_V1_PathChange(change, networkNamespace: networkNamespace)
    case .invalidation(let invalidation):
      self.invalidation = Connectivity_V1_Invalidation(invalidation)
    case .dns(let change):
      self.dns = Connectivity_V1_DnsChange(change)
    }
  }

  /// Returns the first message of a stream.
  public static func snapshot(_ snapshot: ConnectivitySnapshot, networkNamespace: UInt64 = 0)
    -> Self
  {
    var message = Self()
    message.generation = snapshot.generation
    message.snapshot.generation = snapshot.generation
    message.snapshot.status = Connectivity_V1_Status(snapshot, networkNamespace: networkNamespace)
    return message
  }

  /// Returns the message that replaces missed changes.
  public static func gap(_ snapshot: ConnectivitySnapshot, networkNamespace: UInt64 = 0) -> Self {
    var message = Self()
    message.generation = snapshot.generation
    message.gap.generation = snapshot.generation
    message.gap.status = Connectivity_V1_Status(snapshot, networkNamespace: networkNamespace)
    return message
  }
}

/// The content of a message of `Watch`.
public enum WatchEvent: Hashable, Sendable {
  /// The state at the start of the stream.
  case snapshot(ConnectivitySnapshot)
  case change(ConnectivityChange)
  /// The client missed an unknown number of changes. Contains the current state.
  case gap(ConnectivitySnapshot)

  /// The state after the event, or `nil` if the event concerns only a part of it.
  public var snapshot: ConnectivitySnapshot? {
    switch self {
    case .snapshot(let snapshot), .gap(let snapshot): snapshot
    case .change(let change): change.snapshot
    }
  }

  /// Parses a message. Returns `nil` for an unknown event from a newer connd.
  ///
  /// - Throws: ``ConversionError`` if the status is missing or invalid.
  public init?(_ message: Connectivity_V1_WatchResponse) throws(ConversionError) {
    switch message.event {
    case .snapshot(let snapshot):
      guard snapshot.hasStatus else { throw ConversionError("snapshot.status", "is missing") }
      self = .snapshot(try ConnectivitySnapshot(snapshot.status))
    case .transition(let transition):
      self = .change(.transition(try ConnectivityChange.Transition(transition)))
    case .path(let change):
      self = .change(.path(try ConnectivityChange.PathChange(change)))
    case .invalidation(let invalidation):
      self = .change(.invalidation(try Invalidation(invalidation)))
    case .dns(let change):
      self = .change(.dns(try ConnectivityChange.DNSChange(change)))
    case .gap(let gap):
      guard gap.hasStatus else { throw ConversionError("gap.status", "is missing") }
      self = .gap(try ConnectivitySnapshot(gap.status))
    case nil:
      return nil
    }
  }
}
