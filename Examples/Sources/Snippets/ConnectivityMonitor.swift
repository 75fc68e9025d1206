// The examples of the landing page of ConnectivityMonitor: it contains the code between the marks.

// snippet: imports
import ConnectivityMonitor
// end

private func show(_ text: String) {}

func connectivityMonitorFollow() async {
  // snippet: follow
  for await path in PathMonitor() {
    show("\(path)")
  }
  // end
}

func connectivityMonitorGuard(descriptor: Int32) throws {
  // snippet: guard
  let watch = try SocketGuard(
    descriptor: descriptor, config: .defaults { $0.shutsDown = true })
  // end
  _ = watch
}
