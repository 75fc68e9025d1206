import ConnectivityRules
import Glibc

/// A source with recorded facts. The messages behind the facts are not recorded, because they
/// reveal more.
struct RecordedSource: FactSource {
  let source: any FactSource
  let recorder: Recorder

  var descriptors: [pollfd] { self.source.descriptors }
  var timeout: Duration? { self.source.timeout }
  var signalQualities: [String: UInt32] { self.source.signalQualities }

  func process() -> [FactUpdate] { self.noting(self.source.process(), afterLinks: false) }
  func noteLinks() -> [FactUpdate] { self.noting(self.source.noteLinks(), afterLinks: true) }
  func settle(within time: Duration) { self.source.settle(within: time) }

  private func noting(_ updates: [FactUpdate], afterLinks: Bool) -> [FactUpdate] {
    for facts in updates.compactMap({ RecordedFacts($0, afterLinks: afterLinks) }) {
      self.recorder.note(.facts(facts))
    }
    return updates
  }
}
