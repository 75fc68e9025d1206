import ArgumentParser
import ConndServer

@main
enum Main {
  static func main() {
    ConndCommand.widenHelp()
    let arguments = Array(CommandLine.arguments.dropFirst())
    // The parser knows only the long name.
    ConndCommand.main(arguments.first == "-V" ? ["--version"] : arguments)
  }
}
