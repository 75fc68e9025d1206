import Connectivity
import ConnectivityMonitor
import Testing

@testable import ConnctlCommands

@Suite("Environment of a command")
struct OnTests {
  private func variables(_ event: StatusEvent, _ snapshot: ConnectivitySnapshot?) -> [String] {
    OnCommand.variables(event, snapshot).map { "\($0.name)=\($0.value)" }
  }

  @Test("a transition: its former and new category, and its link")
  func transition() {
    let transition = ConnectivityChange.Transition.sample
    #expect(
      self.variables(.change(.transition(transition)), transition.snapshot) == [
        "CONND_EVENT=transition", "CONND_GENERATION=\(transition.snapshot.generation)",
        "CONND_CATEGORY=\(transition.snapshot.status.category.rawValue)",
        "CONND_FROM=\(transition.from.rawValue)",
        "CONND_INTERFACE=\(transition.snapshot.status.interface ?? "")",
      ])
  }

  @Test("an invalidation: its own generation and link, and the present category")
  func invalidation() {
    let told = self.variables(.change(.invalidation(.sample)), .sample)
    #expect(
      told == [
        "CONND_EVENT=invalidation", "CONND_GENERATION=\(Invalidation.sample.generation)",
        "CONND_CATEGORY=\(ConnectivitySnapshot.sample.status.category.rawValue)", "CONND_FROM=",
        "CONND_INTERFACE=\(Invalidation.sample.scope.interface ?? "")",
      ])
    #expect(told.contains("CONND_INTERFACE=wlan0"))
  }

  @Test("dns: its own generation, and the present category")
  func dns() {
    #expect(
      self.variables(.change(.dns(.sample)), .sample) == [
        "CONND_EVENT=dns", "CONND_GENERATION=21",
        "CONND_CATEGORY=\(ConnectivitySnapshot.sample.status.category.rawValue)", "CONND_FROM=",
        "CONND_INTERFACE=\(ConnectivitySnapshot.sample.status.interface ?? "")",
      ])
  }

  @Test("the start, with --now: the present state")
  func start() {
    let told = self.variables(.snapshot(.sample), .sample)
    #expect(told.first == "CONND_EVENT=snapshot" && told.contains("CONND_FROM="))
  }

  @Test("a gap: the present state")
  func gap() {
    let told = self.variables(.gap(.sample), .sample)
    #expect(told.first == "CONND_EVENT=gap" && told.contains("CONND_FROM="))
  }
}
