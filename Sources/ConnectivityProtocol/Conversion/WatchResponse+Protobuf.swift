public import Connectivity

extension Connectivity_V1_WatchResponse {
  /// A change, as a subscriber is told.
  ///
  /// - Parameter networkNamespace: the inode of connd's; 0 where it is not said.
  public init(_ change: Change, networkNamespace: UInt64 = 0) {
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

  /// The first message of a stream.
  public static func snapshot(_ snapshot: Snapshot, networkNamespace: UInt64 = 0) -> Self {
    var message = Self()
    message.generation = snapshot.generation
    message.snapshot.generation = snapshot.generation
    message.snapshot.status = Connectivity_V1_Status(snapshot, networkNamespace: networkNamespace)
    return message
  }

  /// What a subscriber gets in place of the changes that it missed.
  public static func gap(_ snapshot: Snapshot, networkNamespace: UInt64 = 0) -> Self {
    var message = Self()
    message.generation = snapshot.generation
    message.gap.generation = snapshot.generation
    message.gap.status = Connectivity_V1_Status(snapshot, networkNamespace: networkNamespace)
    return message
  }
}

/// What a message of the stream says.
public enum WatchEvent: Hashable, Sendable {
  /// The state of affairs at the start of the stream.
  case snapshot(Snapshot)
  case change(Change)
  /// Something was missed: what, is not known. Here is the present.
  case gap(Snapshot)

  /// The state of affairs after the event; `nil` where that is not all of what the event is about.
  public var snapshot: Snapshot? {
    switch self {
    case .snapshot(let snapshot), .gap(let snapshot): snapshot
    case .change(let change): change.snapshot
    }
  }

  /// Reads a message; `nil` for an event that this version does not know, from a newer connd.
  ///
  /// - Throws: ``ConversionError`` where the status is missing or makes no sense.
  public init?(_ message: Connectivity_V1_WatchResponse) throws(ConversionError) {
    switch message.event {
    case .snapshot(let snapshot):
      guard snapshot.hasStatus else { throw ConversionError("snapshot.status", "is missing") }
      self = .snapshot(try Snapshot(snapshot.status))
    case .transition(let transition):
      self = .change(.transition(try Transition(transition)))
    case .path(let change):
      self = .change(.path(try PathChange(change)))
    case .invalidation(let invalidation):
      self = .change(.invalidation(try Invalidation(invalidation)))
    case .dns(let change):
      self = .change(.dns(try DNSChange(change)))
    case .gap(let gap):
      guard gap.hasStatus else { throw ConversionError("gap.status", "is missing") }
      self = .gap(try Snapshot(gap.status))
    case nil:
      return nil
    }
  }
}
