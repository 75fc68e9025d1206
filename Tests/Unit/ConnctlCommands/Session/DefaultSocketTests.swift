import Connectivity
import Testing

@Suite("The default socket")
struct DefaultSocketTests {
  private func path(
    _ environment: [String: String], uid: UInt32 = 1000, systemExists: Bool = false
  ) -> String {
    DefaultSocket.path(
      environment: { environment[$0] }, uid: uid,
      exists: { systemExists && $0 == DefaultSocket.system })
  }

  @Test("CONND_SOCKET beats everything else; an empty one is ignored")
  func environment() {
    #expect(self.path(["CONND_SOCKET": "/x"], uid: 0, systemExists: true) == "/x")
    #expect(self.path(["CONND_SOCKET": ""], uid: 0) == "/run/connd/connd.sock")
  }

  @Test("root uses the system's socket, and so do other users if it exists")
  func system() {
    #expect(self.path(["XDG_RUNTIME_DIR": "/run/user/0"], uid: 0) == "/run/connd/connd.sock")
    #expect(
      self.path(["XDG_RUNTIME_DIR": "/run/user/1000"], systemExists: true)
        == "/run/connd/connd.sock")
  }

  @Test("other users have their own socket")
  func user() {
    #expect(self.path(["XDG_RUNTIME_DIR": "/run/user/1000"]) == "/run/user/1000/connd.sock")
    #expect(self.path([:]) == "/run/connd/connd.sock")
    #expect(self.path(["XDG_RUNTIME_DIR": ""]) == "/run/connd/connd.sock")
  }
}
