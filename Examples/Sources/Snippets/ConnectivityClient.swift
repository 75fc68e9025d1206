// The examples of the library's landing page: it contains the code between the marks.

// snippet: imports
import ConnectivityClient
// end

private func show(_ text: String) {}

func connectivityClientFollow() async {
  // snippet: follow
  for await event in StatusStream() {
    switch event {
    case .snapshot(let snapshot), .gap(let snapshot):
      show("now \(snapshot.status.category)")
    case .change(.transition(let transition)):
      show("changed to \(transition.to)")
    case .change(.invalidation(let invalidation)):
      show("no longer viable: \(invalidation.scope), \(invalidation.severity)")
    case .disconnected(let error):
      show("connd is not there: \(error)")
    default:
      break
    }
  }
  // end
}
