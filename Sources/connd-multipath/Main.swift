import ArgumentParser
import ConndMultipath

@main
enum Main {
  static func main() { MultipathCommand.main() }
}
