import ArgumentParser
import CLinux
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Glibc
import UnixTransport

/// The program connctl.
public enum Program {
  /// Runs the command of the process's arguments, and ends the process.
  public static func main() -> Never {
    // A reader that is gone causes an error of write(2), not a signal.
    signal(SIGPIPE, SIG_IGN)
    // If a standard descriptor is closed, a socket could take its number. Output into this file
    // fails with EBADF.
    while (0...STDERR_FILENO).contains(open("/dev/null", O_RDONLY | O_CLOEXEC)) {}
    // connctl inherits the signal mask of its parent's thread. Threads of libdispatch block signals
    // that should end connctl.
    var none = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, nil)
    Console.widenHelp()
    let arguments = ProgramArguments.all
    do {
      let reactor = try Reactor()
      exit(
        try reactor.runBlocking {
          await self.run(arguments, on: .standard, through: Connector(on: reactor))
        })
    } catch {
      Console.standard.remark("connctl cannot start: \(error)")
      exit(EX_OSERR)
    }
  }

  /// Runs the command of the arguments, and returns the exit status.
  static func run(
    _ arguments: [String], on console: Console, through connector: Connector
  ) async -> Int32 {
    await Console.$current.withValue(console) {
      // The parser does not know -V, and its own completion scripts lack connctl's additions.
      var arguments = arguments
      switch arguments.first {
      case "-V": arguments = ["--version"]
      case "--generate-completion-script": arguments[0] = "completion"
      default: break
      }
      var command: (any ParsableCommand)?
      do {
        try Connctl.checkCommandName(in: arguments)
        let parsed = try Connctl.parseAsRoot(arguments)
        command = parsed
        try (parsed as? any ConnctlCommand)?.checkJSON()
        try await self.run(parsed, through: connector)
        return ExitStatus.holds.rawValue
      } catch {
        return self.report(error, of: command, on: console).rawValue
      }
    }
  }

  private static func run(
    _ command: any ParsableCommand, through connector: Connector
  ) async throws {
    if let command = command as? any RunnableCommand {
      try await command.run(through: connector)
    } else {
      // The parser's own commands: help, completions.
      var command = command
      try command.run()
    }
  }

  /// - Parameter command: The failed command, if the arguments name one.
  private static func report(
    _ error: any Error, of command: (any ParsableCommand)?, on console: Console
  ) -> ExitCode {
    switch error {
    case is OutputClosed:
      return ExitStatus.holds
    case let code as ExitCode:
      return code
    case let error as ConndError:
      let socket =
        (command as? any ConnctlCommand)?.socket
        ?? (command as? Connctl).map { $0.options.socket ?? ConndSocket.default.path }
      console.remark(error.advice(socket: socket))
      return error.exitStatus
    case let failure as CommandFailure:
      console.remark("\(failure)")
      return failure.exitStatus
    case let foreign as ForeignNamespace:
      console.remark(foreign.refusal)
      return ExitStatus.notThere
    case let older as OlderConnd:
      console.remark("\(older)")
      return ExitStatus.notThere
    case let error as ConversionError:
      console.remark("connd's response is invalid: \(error)")
      return ExitStatus.notThere
    case is ResolutionError, is OutputError:
      console.remark("\(error)")
      return ExitStatus.doesNotHold
    case let error as ValidationError:
      // The parser knows the command only if it found the error itself.
      if let command { return self.reportUsage(error, of: type(of: command), on: console) }
      return self.reportParsing(error, on: console)
    default:
      return self.reportParsing(error, on: console)
    }
  }

  /// Formats the error like the parser's own.
  private static func reportUsage(
    _ error: ValidationError, of command: any ParsableCommand.Type, on console: Console
  ) -> ExitCode {
    let name = ["connctl", command.configuration.commandName].compactMap { $0 }
    console.complainInLines(
      """
      Error: \(error.message.printable)
      Usage: \(Connctl.usageString(for: command))
        See '\(name.joined(separator: " ")) --help' for more information.

      """)
    return ExitStatus.usage
  }

  /// Reports help, the version, completion scripts and usage errors.
  private static func reportParsing(_ error: any Error, on console: Console) -> ExitCode {
    let code = Connctl.exitCode(for: error)
    let message = Connctl.fullMessage(for: error) + "\n"
    guard code.isSuccess else {
      console.complainInLines(message.withoutFarFetchedSuggestion)
      return code
    }
    do {
      try console.writeText(message)
      return code
    } catch {
      return self.report(error, of: nil, on: console)
    }
  }
}
