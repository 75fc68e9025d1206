package import Connectivity

extension DNSSettings {
  /// Returns the difference from the previous settings, or `nil` if they are equal. The global
  /// settings come first, then the settings of links.
  package func cause(since before: DNSSettings) -> ChangeCause? {
    if self.servers != before.servers { return ChangeCause(.dns, "serversChanged") }
    if self.search != before.search { return ChangeCause(.dns, "searchChanged") }
    let names = Set((before.links + self.links).map(\.interface)).sorted()
    for name in names {
      let (old, new) = (before[name], self[name])
      if old.servers != new.servers {
        return ChangeCause(.dns, "linkServersChanged", interface: name)
      }
      if old.search != new.search { return ChangeCause(.dns, "linkSearchChanged", interface: name) }
    }
    return nil
  }

  private subscript(interface: String) -> Link {
    self.links.first { $0.interface == interface } ?? Link(interface: interface)
  }
}
