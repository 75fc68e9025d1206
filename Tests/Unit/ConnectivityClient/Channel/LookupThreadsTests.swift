import Dispatch
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Synchronization
import TestKit
import Testing

@testable import ConnectivityClient

/// Lookups on threads of their own.
@Suite("LookupThreads", .timeLimit(.minutes(5)), .namesWaits)
struct LookupThreadsTests {
  private typealias Address = GRPCNIOTransportHTTP2Posix.SocketAddress

  /// Lookups that end when the test says so.
  private final class Held: Sendable {
    /// The names, each as its lookup starts.
    let starts: AsyncStream<String>
    private let start: AsyncStream<String>.Continuation
    private let ends = Mutex<[String: DispatchSemaphore]>([:])

    init() { (self.starts, self.start) = AsyncStream.makeStream() }

    func release(_ host: String) { self.end(of: host).signal() }

    func lookUp(_ host: String, port: Int) -> [Address] {
      self.start.yield(host)
      self.end(of: host).wait()
      return [.ipv4(host: host, port: port)]
    }

    private func end(of host: String) -> DispatchSemaphore {
      self.ends.withLock { ends in
        let end = ends[host] ?? DispatchSemaphore(value: 0)
        ends[host] = end
        return end
      }
    }
  }

  @Test("C5 a lookup hangs → others are answered meanwhile")
  func parallel() async throws {
    let held = Held()
    defer { held.release("hangs") }
    let threads = LookupThreads(limit: 16, held.lookUp)
    _ = threads.start("hangs", port: 1) { _ in }
    for number in 0..<8 {
      held.release("\(number)")
      let answer = await withCheckedContinuation { waiter in
        _ = threads.start("\(number)", port: number) { waiter.resume(returning: $0) }
      }
      #expect(try answer.get() == [.ipv4(host: "\(number)", port: number)])
    }
  }

  @Test("C5 more lookups than threads → the rest wait, and cancelled ones never start")
  func limited() async throws {
    let held = Held()
    let threads = LookupThreads(limit: 2, held.lookUp)
    let (answers, answer) = AsyncStream.makeStream(of: Resolution.Addresses.self)
    let cancellations = ["a", "b", "c", "d"].map { host in
      threads.start(host, port: 1) { if let addresses = try? $0.get() { answer.yield(addresses) } }
    }
    cancellations[2]()
    held.release("a")
    held.release("d")
    var iterator = answers.makeAsyncIterator()
    #expect(await iterator.next() == [.ipv4(host: "a", port: 1)])
    #expect(await iterator.next() == [.ipv4(host: "d", port: 1)])
    held.release("b")
    #expect(await iterator.next() == [.ipv4(host: "b", port: 1)])
    let started = await held.starts.prefix(3).reduce(into: Set()) { $0.insert($1) }
    #expect(started == ["a", "b", "d"])
  }

  @Test("C5 channels look up the same name → one lookup, until the network changes")
  func shared() async throws {
    let held = Held()
    let threads = LookupThreads(limit: 2, held.lookUp)
    var started = held.starts.makeAsyncIterator()
    let (answers, answer) = AsyncStream.makeStream(of: Int.self)
    func look(_ number: Int) -> @Sendable () -> Void {
      threads.start("a", port: 1) { _ in answer.yield(number) }
    }
    _ = look(0)
    #expect(await started.next() == "a")
    _ = look(1)
    look(2)()
    threads.changed(7)
    // Lookups that began before the change may wait for servers that are gone.
    _ = look(3)
    #expect(await started.next() == "a")
    // Another channel learns of the same change.
    threads.changed(7)
    _ = look(4)
    held.release("a")
    held.release("a")
    var all: Set<Int> = []
    for await number in answers {
      all.insert(number)
      if all.count == 4 { break }
    }
    #expect(all == [0, 1, 3, 4])
  }

  @Test("C5 two changes of a path in quick succession → the last change is the second")
  func lastChange() {
    let threads = LookupThreads(limit: 1) { _, _ in [] }
    let first = ContinuousClock.now
    threads.changed(nil, now: first)
    threads.changed(nil, now: first + .milliseconds(10))
    #expect(threads.lastChange == first + .milliseconds(10))
  }

  @Test("C5 lookups hang when the network changes → later ones do not wait for their threads")
  func abandoned() async throws {
    let held = Held()
    let threads = LookupThreads(limit: 2, held.lookUp)
    var started = held.starts.makeAsyncIterator()
    for number in 0..<4 { _ = threads.start("old \(number)", port: 1) { _ in } }
    for _ in 0..<2 { _ = await started.next() }
    threads.changed(1)
    // The two that waited had not begun, so they use the new servers.
    #expect(Set([await started.next(), await started.next()]) == ["old 2", "old 3"])
    threads.changed(2)
    _ = threads.start("new", port: 1) { _ in }
    #expect(await started.next() == "new")
    for number in 0..<4 { held.release("old \(number)") }
    held.release("new")
  }

  @Test("C5 the system's resolver → addresses with the port, or an error that names the host")
  func system() async throws {
    func answer(_ host: String) async -> LookupThreads.Answer {
      await withCheckedContinuation { waiter in
        _ = LookupThreads.shared.start(host, port: 7) { waiter.resume(returning: $0) }
      }
    }
    #expect(try await answer("127.0.0.9").get() == [.ipv4(host: "127.0.0.9", port: 7)])
    #expect(try await answer("::1").get() == [.ipv6(host: "::1", port: 7)])
    let error = await #expect(throws: LookupError.self) {
      try await answer("nothing.invalid").get()
    }
    #expect(error?.description.contains("'nothing.invalid'") == true)
  }

  @Test("C5 grpc-swift's DNS resolver is replaced, the application's resolver is not")
  func replaced() throws {
    struct Own: NameResolverFactory {
      func resolver(for target: ResolvableTargets.DNS) -> NameResolver {
        NameResolvers.DNS().resolver(for: target)
      }
    }
    let target = ResolvableTargets.DNS(host: "server.test", port: nil)
    var registry = NameResolverRegistry.defaults
    let found = try #require(registry.makeResolver(for: target))
    guard case .system("server.test", port: 443) = Resolution.Source(target, registry, found) else {
      Issue.record("grpc-swift's resolver is used")
      return
    }
    registry.registerFactory(Own())
    guard case .resolver = Resolution.Source(target, registry, found) else {
      Issue.record("the application's resolver is not used")
      return
    }
  }
}
