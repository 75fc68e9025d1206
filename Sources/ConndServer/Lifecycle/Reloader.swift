import Connectivity
import Logging
import Synchronization
import Systemd

/// Reads the configuration again on SIGHUP. An invalid configuration changes only the reported
/// status.
///
/// Implements rule D1.
struct Reloader {
  let started: Configuration
  let read: @Sendable () throws(ConfigurationError) -> Configuration
  let monitor: Monitor
  let limiter: ConnectionLimiter
  let store: Store
  let notifier: Notifier
  let state: ReloadState
  let logger: Logger

  func reload() async {
    self.notifier.reloading(status: "reading the configuration")
    do throws(ConfigurationError) {
      let configuration = try self.read()
      self.limiter.configure(configuration.limits)
      _ = await self.monitor.ask { .configure(configuration, $0) }
      self.state.set(configuration)
      for warning in configuration.source.warnings { self.logger.warning("\(warning)") }
      let waiting = configuration.keysForNextStart(of: self.started)
      self.logger.notice(
        "configuration reloaded",
        metadata: waiting.isEmpty ? nil : ["atNextStart": "\(waiting.joined(separator: " "))"])
    } catch {
      self.state.set(error)
      for mistake in error.mistakes {
        self.logger.error("invalid configuration, keeping the previous one: \(mistake)")
      }
    }
    self.notifier.reloaded()
    self.store.touch()
  }
}

/// The configuration in use, and the error of the last reading, if any.
final class ReloadState: Sendable {
  private let state: Mutex<(configuration: Configuration, error: ConfigurationError?)>

  init(_ configuration: Configuration = Configuration()) {
    self.state = Mutex((configuration, nil))
  }

  func set(_ configuration: Configuration) {
    self.state.withLock { $0 = (configuration, nil) }
  }

  func set(_ error: ConfigurationError) {
    self.state.withLock { $0.error = error }
  }

  var configuration: Configuration { self.state.withLock { $0.configuration } }

  /// The text appended to the status, or empty without an error.
  var complaint: String {
    self.state.withLock { state in
      state.error?.mistakes.first.map { "; configuration not reloaded: \($0)" } ?? ""
    }
  }
}
