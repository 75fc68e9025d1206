import Netlink

/// The edges of the monitor's thread: the machine's own, or those with somebody beside them who writes down what they answer.
struct MonitorEdges {
  let clock: any MonitorClock
  let dnsFiles: DNSFiles
  let devices: DeviceReader
  private let recorder: Recorder?

  init(sysfs: String, _ recorder: Recorder?) {
    self.recorder = recorder
    guard let recorder else {
      self.clock = SystemClock()
      self.dnsFiles = DNSFiles()
      self.devices = DeviceReader(root: sysfs)
      return
    }
    self.clock = RecordedClock(clock: SystemClock(), recorder: recorder)
    self.dnsFiles = DNSFiles(from: RecordedFiles(files: ResolverFiles(), recorder: recorder))
    self.devices = DeviceReader(
      root: sysfs, from: RecordedFiles(files: DeviceFiles(), recorder: recorder))
  }

  /// What knows of modems.
  func modems() -> any ModemSource {
    let modems = ModemWatch()
    return self.recorder.map { RecordedModems(modems: modems, recorder: $0) } ?? modems
  }

  /// What knows of links' costs.
  func metering() -> any MeteringSource {
    let metering = MeteringWatch()
    return self.recorder.map { RecordedMetering(metering: metering, recorder: $0) } ?? metering
  }

  /// - Parameter adopted: what systemd passed, for the first listener.
  func sockets(adopting adopted: CInt?) -> any SocketSource {
    let sockets = KernelSockets(adopting: adopted)
    return self.recorder.map { RecordedSockets(sockets: sockets, recorder: $0) } ?? sockets
  }
}
