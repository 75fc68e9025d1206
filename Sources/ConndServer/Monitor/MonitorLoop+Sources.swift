import Connectivity
import ConnectivityRules

// What is told by others than the kernel.
extension MonitorLoop {
  /// Reads whom names are asked of, and publishes that it is another.
  mutating func readDNS() {
    guard let settings = self.dns?.read() else { return }
    let changes = self.engine.update(to: settings, time: self.clock.time)
    self.publish(changes)
  }

  /// Reads what is said of modems, and what that makes of the paths. It is not waited for, neither here nor in any answer.
  mutating func readModems() { self.modems?.process().map { self.take($0) } }

  /// Reads what is said of links' costs, and what that makes of the paths.
  mutating func readMetering() {
    guard let words = self.metering?.process(), words != self.engine.metering else { return }
    self.engine.metering = words
    self.step(.metering)
  }

  mutating func take(_ links: [String: ModemLink]) {
    for change in self.engine.modems.changes(to: links) {
      self.engine.modems.update(change.interface, to: links[change.interface])
      self.step(.modem(change))
    }
    self.engine.modems.update(to: links)
  }
}
