import Connectivity
import ConnectivityRules

// Sources of facts other than the kernel.
extension MonitorLoop {
  /// Reads the DNS settings and publishes a change.
  mutating func readDNS() {
    guard let settings = self.dns?.read() else { return }
    let changes = self.engine.update(to: settings, time: self.clock.time)
    self.publish(changes)
  }

  /// Reads what is known about modems and updates the paths. Never waits.
  mutating func readModems() { self.modems?.process().map { self.take($0) } }

  /// Reads what is known about link costs and updates the paths.
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
