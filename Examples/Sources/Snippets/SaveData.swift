// The examples of the article SaveData: it contains the code between the marks.

// snippet: imports
import ConnectivityClient
// end

private struct Photo: Sendable {}
private let photos: [Photo] = []
private func upload(_ photo: Photo) async throws {}
private func download(_ name: String) async throws -> String { name }
private func show(_ text: String) {}

private struct Client {
  func get(_ size: String, over access: NetworkAccess = .unrestricted) async throws -> String {
    size
  }
}

func saveDataBackup() async throws {
  // snippet: backup
  let backup = DiscretionaryTask(
    config: .defaults {
      $0.onWait = { path in show("waits: \(path)") }
    })
  try await backup.run { network in
    for photo in photos {
      try await network.wait()
      try await upload(photo)
    }
  }
  // end
}

func saveDataRestarting() async throws {
  // snippet: restarting
  let map = try await DiscretionaryTask().run { network in
    try await network.restarting { try await download("map") }
  }
  // end
  show(map)
}

func saveDataExpires() async throws {
  // snippet: expires
  let soon = DiscretionaryTask(config: .defaults { $0.timeLimit = .timeout(.seconds(10)) })
  let article = try await withFallback(on: [.constrained, .expensive, .costUnknown]) {
    try await soon.run { _ in try await download("article with films") }
  } fallback: { _ in
    try await download("article without films")
  }
  // end
  show(article)
}

private func saveDataPicture(_ client: Client) async throws {
  let (large, small) = ("2000000", "50000")
  // snippet: picture
  let picture = try await withFallback(on: [.constrained, .expensive]) {
    try await client.get(large, over: .inexpensive)
  } fallback: { reason in
    try await client.get(small)
  }
  // end
  show(picture)
}
