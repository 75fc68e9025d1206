import ConndServer

@main
enum Main {
  static func main() { ConndCommand.start() }
}
