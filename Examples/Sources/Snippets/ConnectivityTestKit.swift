// The examples of the test kit's landing page: it contains the code between the marks.

// snippet: imports
import ConnectivityClient
import ConnectivityTestKit
// end

func testKitFollow() async throws {
  // snippet: follow
  try await withSimulatedNetwork(.wifi) { network in
    // Give the socket to what is to be tested.
    let events = StatusStream(socket: network.socket)
    let following = Task {
      for await event in events {
        print(event)
        if case .change(.transition(let transition)) = event, transition.to == .cellular { return }
      }
    }
    try await network.waitForSubscribers(atLeast: 1)
    try await network.play("wifi, 2 s, none, cellular")
    await following.value
  }
  // end
}

func testKitRoute(_ network: SimulatedNetwork) throws {
  // snippet: route
  try network.route("127.0.0.2", by: .wired, isOnLink: true)
  network.become(.cellular)  // connections to 127.0.0.1 die, those to 127.0.0.2 do not notice
  // end
}
