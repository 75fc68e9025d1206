package import Connectivity

extension DNSSettings {
  /// What makes these others than those before: what everybody asks first, and then what a link has brought; `nil` where they
  /// are the same.
  package func cause(since before: DNSSettings) -> Cause? {
    if self.servers != before.servers { return Cause(.dns, "serversChanged") }
    if self.search != before.search { return Cause(.dns, "searchChanged") }
    let names = Set((before.links + self.links).map(\.interface)).sorted()
    for name in names {
      let (old, new) = (before[name], self[name])
      if old.servers != new.servers {
        return Cause(.dns, "linkServersChanged", interface: name)
      }
      if old.search != new.search { return Cause(.dns, "linkSearchChanged", interface: name) }
    }
    return nil
  }

  private subscript(interface: String) -> Link {
    self.links.first { $0.interface == interface } ?? Link(interface: interface)
  }
}
