import ConndMultipath

@main
enum Main {
  static func main() { MultipathCommand.start() }
}
