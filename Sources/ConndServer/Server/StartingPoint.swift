import ConnectivityProtocol
import GRPCCore
import Glibc
import LinuxSupport
import UnixTransport

/// The state with which a second connd starts, so that it gives the same answers as the running
/// connd. It is read from a file with the response to GetConfiguration.
struct StartingPoint {
  var configuration: Configuration
  var overrides: OverrideFile.Contents
  /// The history, oldest first.
  var past: [Published]
}

extension StartingPoint {
  /// The reason why a file is not a starting point.
  struct Fault: Error, CustomStringConvertible {
    var description: String
  }

  /// The maximum file size in bytes. The history has at most 512 changes.
  private static let maxSize = 1 << 26

  /// - Throws: ``Fault``, or ``ConfigurationError``.
  init(file: String) throws {
    let response: Connectivity_V1_GetConfigurationResponse
    do {
      response = try .init(serializedBytes: try contents(of: file, max: Self.maxSize))
      self.past = []
      for message in response.history {
        do {
          self.past.append(try Published(decoding: message.serializedBytes()))
        } catch is UnknownChange {
          // The running connd is newer. The history begins after this change.
          self.past = []
        }
      }
      self.overrides = try OverrideFile.read(Array(response.overrides.utf8), boot: "")
    } catch {
      throw Fault(description: "\(file) is not a state to start from: \(error)")
    }
    self.configuration = try .parse(response.configuration, file: file)
  }
}

extension DiagnosticsService {
  /// Returns the state with which a second connd starts.
  func configuration(
    for caller: PeerCredentials
  ) async throws -> Connectivity_V1_GetConfigurationResponse {
    let isAdministrator = caller.uid == 0 || caller.uid == geteuid()
    let answer = try await self.queries.answer(for: caller) {
      .costs(.copy(of: isAdministrator ? nil : caller.uid), $0)
    }
    guard case .success(.copy(let overrides)) = answer else {
      throw RPCError(code: .unavailable, message: "the kernel cannot be asked")
    }
    var response = Connectivity_V1_GetConfigurationResponse()
    response.configuration = self.configuration().text
    // The copy has no override that ends at the next boot.
    response.overrides = OverrideFile.text(overrides, boot: "")
    response.history = try self.store.past.map { try .init(serializedBytes: $0.message) }
    return response
  }
}
