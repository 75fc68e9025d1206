import Connectivity
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol

/// The state in which a recording connd starts.
enum StartingState: Hashable {
  /// The state of the running connd, in a file. Other users' overrides are missing unless this user
  /// is root or connd's own user.
  case running(file: String)
  /// The configuration file alone, because connd is not running or watches another network.
  case configured(why: String, isElsewhere: Bool = false)

  /// Asks the running connd for its state.
  ///
  /// - Throws: ``OutputError`` if the state cannot be stored.
  static func current(
    at socket: String, in directory: PrivateDirectory, through connector: Connector
  ) async throws -> StartingState {
    let response: Connectivity_V1_GetConfigurationResponse
    do {
      let (answer, namespace) = try await connector.withServices(at: socket) { connd in
        (
          try await connd.call(ConndServices.Diagnostics.GetConfiguration.self),
          try await connd.call(ConndServices.Connectivity.GetStatus.self).networkNamespace
        )
      }
      guard [0, ProcessNamespace.own ?? namespace].contains(namespace) else {
        return .configured(
          why: "connd watches another network namespace than connctl", isElsewhere: true)
      }
      response = answer
    } catch let error as ConndError {
      return .configured(why: "connd cannot be asked (\(error))")
    } catch let error as OlderConnd {
      return .configured(why: "\(error)")
    }
    let file = try NewFile("\(directory.path)/connd.state")
    try file.write(response.serializedBytes())
    return .running(file: file.path)
  }

  /// A remark for the user, or `nil` if the running connd provided its state.
  var remark: String? {
    switch self {
    case .running: nil
    case .configured(let why, _): "\(why): recording with the configuration file alone"
    }
  }

  /// The arguments of the recording connd.
  var arguments: [String] {
    switch self {
    case .running(let file): ["--start-from", file]
    case .configured: []
    }
  }

  /// The lines of the report about the starting state.
  var text: [String] {
    switch self {
    case .running:
      [
        "The recording began in the state of the running connd: its configuration, its history, and",
        "the user's own cost overrides (for root, those of all users).",
      ]
    // `why` is left out, because it may name a private directory.
    case .configured(_, let isElsewhere):
      [
        "The recording began with the configuration file, without history and cost overrides,",
        isElsewhere
          ? "because the running connd watches another network namespace."
          : "because the running connd could not be asked.",
      ]
    }
  }
}
