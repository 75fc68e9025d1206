import Connectivity

/// The paths that waiting callers received, as text.
final class PathWaits: Sendable {
  private let words: AsyncStream<String>.Continuation
  let stream: AsyncStream<String>

  init() { (self.stream, self.words) = AsyncStream.makeStream() }

  @Sendable func add(_ path: KernelPath) {
    self.words.yield("\(path.status.rawValue) \(path.interface ?? "nothing")")
  }

  func all() async -> [String] {
    self.words.finish()
    return await self.stream.reduce(into: []) { $0.append($1) }
  }
}
