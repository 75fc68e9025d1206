import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import TestTraits
import Testing
import TestKit

@Suite("Pages of lists")
struct PageTests {
  private typealias Response = Connectivity_V1_ListLinksResponse

  /// Returns a page of links with these names, sorted by name.
  private func page(
    _ names: [String], size: Int32 = 0, _ token: String = "", of list: String = "links"
  ) throws -> (names: [String], next: String) {
    let response =
      try PageRequest(size: size, token: token, of: list).response(
        with: names.sorted(), key: { $0 },
        token: { token in .with { $0.nextPageToken = token } },
        { name in .with { $0.links = [.with { $0.name = name }] } }) as Response
    return (response.links.map(\.name), response.nextPageToken)
  }

  @Test(
    "all pages together have each entry once, for each size of page",
    arguments: [1, 2, 3, 7, 20, 100] as [Int32])
  func everySize(size: Int32) throws {
    let names = (0..<20).map { "eth\($0)" } + ["ärger0", "", "a b"]
    var (all, token, pages) = ([String](), "", 0)
    repeat {
      let page = try self.page(names, size: size, token)
      #expect(page.names.count == min(Int(size), names.count - all.count))
      all += page.names
      token = page.next
      pages += 1
    } while !token.isEmpty
    #expect(all == names.sorted())
    #expect(pages == (names.count + Int(size) - 1) / Int(size))
  }

  @Test("entries come and go between two pages → the others are neither repeated nor missing")
  func changes() throws {
    let first = try self.page(["b", "c", "f", "g"], size: 2)
    #expect(first.names == ["b", "c"])
    let second = try self.page(["a", "d", "f", "g"], size: 2, first.next)
    #expect(second.names == ["d", "f"])
    #expect(try self.page(["a"], size: 2, second.next) == ([], ""))
  }

  @Test(
    "the client names no size → a page ends at 2 MiB, which gRPC's clients accept", .blocking)
  func size() throws {
    let names = (0..<100_000).map { "link with a long name \(100_000 + $0)" }
    let first = try self.page(names)
    #expect((50_000..<100_000).contains(first.names.count))
    let second = try self.page(names, first.next)
    #expect(first.names.count + second.names.count == names.count && second.next.isEmpty)
  }

  @Test("a negative size is INVALID_ARGUMENT")
  func negative() {
    let error = #expect(throws: RPCError.self) { try self.page([], size: -1) }
    #expect(error?.code == .invalidArgument && error?.message.hasPrefix("page_size: ") == true)
  }

  @Test("a token that is damaged, or of another list or limit, is INVALID_ARGUMENT")
  func tokens() throws {
    let token = try self.page(["a", "b"], size: 1).next
    #expect(try self.page(["a", "b"], size: 1, token).names == ["b"])
    var wrong = ["x", "0", "zz", "é", "00000000000000000", token + "0", "00" + token, "\0"]
    wrong += (1..<token.count).map { String(token.prefix($0)) }
    wrong += token.indices.map { place in
      token.replacingCharacters(at: place, with: token[place] == "0" ? "1" : "0")
    }
    for wrong in wrong {
      let error = #expect(throws: RPCError.self) { try self.page(["a", "b"], wrong) }
      #expect(error?.code == .invalidArgument && error?.message.hasPrefix("page_token: ") == true)
    }
    #expect(throws: RPCError.self) { try self.page(["a"], token, of: "clients") }
    #expect(throws: RPCError.self) { try self.page(["a"], token, of: "links 1") }
  }
}

extension String {
  fileprivate func replacingCharacters(at place: Index, with new: Character) -> String {
    self[..<place] + String(new) + self[self.index(after: place)...]
  }
}
