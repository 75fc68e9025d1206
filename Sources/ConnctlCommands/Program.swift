import ArgumentParser
import ConnectivityClient
import ConnectivityProtocol
import EventLoopExecutor
import Glibc
import NIOCore

/// connctl as a program.
public enum Program {
  /// Does what the process's arguments say, and ends it.
  public static func main() -> Never {
    // A reader that went away is an error of write(2), not a signal.
    signal(SIGPIPE, SIG_IGN)
    // Whoever starts connctl from a thread that blocks signals, as libdispatch's do, wants it to end by them all the same.
    var none = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, nil)
    // One thread does it all: what a message wakes, also prints it.
    NIOSingletons.groupLoopCountSuggestion = 1
    let arguments = Array(CommandLine.arguments.dropFirst())
    let status = try? runBlocking(on: ClientThread.eventLoop) {
      await self.run(arguments, on: .standard)
    }
    exit(status ?? EX_SOFTWARE)
  }

  /// Does what the arguments say, and returns the exit status.
  static func run(_ arguments: [String], on console: Console) async -> Int32 {
    await Console.$current.withValue(console) {
      do {
        var command = try await Connctl.asyncParseAsRoot(arguments)
        if var command = command as? any AsyncParsableCommand {
          try await command.run()
        } else {
          try command.run()
        }
        return ExitStatus.holds.rawValue
      } catch {
        return self.report(error, on: console).rawValue
      }
    }
  }

  private static func report(_ error: any Error, on console: Console) -> ExitCode {
    switch error {
    case is OutputClosed:
      return ExitStatus.holds
    case let code as ExitCode:
      return code
    case let error as ConndError:
      console.remark(error.advice)
      return error.exitStatus
    case let error as ConversionError:
      console.remark("connd's answer makes no sense: \(error)")
      return ExitStatus.notThere
    case is ResolutionError, is OutputError:
      console.remark("\(error)")
      return ExitStatus.doesNotHold
    default:
      return self.reportParsing(error, on: console)
    }
  }

  /// Help, the version, completion scripts and usage errors.
  private static func reportParsing(_ error: any Error, on console: Console) -> ExitCode {
    let code = Connctl.exitCode(for: error)
    let message = Connctl.fullMessage(for: error) + "\n"
    guard code.isSuccess else {
      console.complain(message)
      return code
    }
    do {
      try console.write(message)
      return code
    } catch {
      return self.report(error, on: console)
    }
  }
}
