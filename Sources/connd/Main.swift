import ArgumentParser
import ConndServer

@main
enum Main {
  static func main() async {
    await ConndCommand.main()
  }
}
