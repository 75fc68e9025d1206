import Album
import ArgumentParser

/// Gets pictures, and avoids large ones on metered networks.
@main
struct Main: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "album", abstract: "Get pictures, and avoid large ones on metered networks.",
    subcommands: [Picture.self, Copy.self])
}

struct Server: ParsableArguments {
  @Option(help: "The server's host.") var host: String
  @Option(help: "Its port.") var port = 80

  var album: Album { Album(host: self.host, port: self.port) }
}

struct Picture: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Get a picture: the large one, or the small one on metered networks.")

  @OptionGroup var server: Server
  @Argument(help: "The path of the large one.") var large: String
  @Argument(help: "The path of the small one.") var small: String

  func run() async throws {
    let picture = try await self.server.album.picture(large: self.large, small: self.small)
    print("a picture of \(picture.readableBytes) bytes")
  }
}

struct Copy: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Get pictures, only on unmetered networks.")

  @OptionGroup var server: Server
  @Argument(help: "Their paths.") var pictures: [String]

  func run() async throws {
    try await self.server.album.copy(self.pictures) { path in
      print("waiting: \(path)")
    } keep: { picture, bytes in
      print("\(picture): \(bytes.readableBytes) bytes")
    }
  }
}
