import Album
import ConnectivityTestKit
import Testing

/// The example that saves data.
@Suite("Album", .timeLimit(.minutes(2)))
struct AlbumTests {
  private func album(_ url: String, _ network: SimulatedNetwork) throws -> Album {
    let port = try #require(url.split(separator: ":").last.flatMap { Int($0) })
    var album = Album(host: "127.0.0.1", port: port)
    album.socket = network.socket
    return album
  }

  @Test(
    "C8 a picture in two sizes: on an expensive or constrained network → the small one"
  )
  func picture() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      try await HTTPServer.serving { url, _ in
        let album = try self.album(url, network)
        for (conditions, size) in [
          (NetworkConditions.wifi, 20_000), (.cellular, 500), (.wifi.constrained(), 500),
          (.wired, 20_000),
        ] {
          network.become(conditions)
          let picture = try await album.picture(large: "/20000", small: "/500")
          #expect(picture.readableBytes == size, "\(conditions)")
        }
      }
    }
  }

  @Test("C8 a copy starts on an unmetered network, pauses on a metered one, and continues")
  func copy() async throws {
    try await withSimulatedNetwork(.cellular) { network in
      try await HTTPServer.serving { url, connections in
        let (waits, wait) = AsyncStream.makeStream(of: Void.self)
        var waiting = waits.makeAsyncIterator()
        let album = try self.album(url, network)
        let copy = Task {
          var sizes: [Int] = []
          try await album.copy(["/100", "/200", "/300"]) { _ in
            wait.yield()
          } keep: { _, bytes in
            sizes.append(bytes.readableBytes)
            if sizes.count == 1 { network.become(.cellular) }
          }
          return sizes
        }
        await waiting.next()
        #expect(connections.count == 0)
        network.become(.wifi)
        await waiting.next()
        // One picture has arrived, and the next one was not requested.
        #expect(connections.count == 1)
        network.become(.wifi)
        let sizes = try await copy.value
        #expect(sizes == [100, 200, 300])
      }
    }
  }
}
