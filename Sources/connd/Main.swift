import ArgumentParser
import ConndServer

@main
enum Main {
  static func main() {
    ConndCommand.widenHelp()
    ConndCommand.main()
  }
}
