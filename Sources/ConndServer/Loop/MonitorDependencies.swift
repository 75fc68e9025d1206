import LinuxSupport
import Netlink

/// The external interfaces of the monitor thread, each with a recorder around it if connd is
/// recording.
struct MonitorDependencies {
  let clock: any MonitorClock
  private let dnsFiles: DNSFiles
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
    self.dnsFiles = DNSFiles(from: RecordedFiles(files: MachineFiles(), recorder: recorder))
    self.devices = DeviceReader(
      root: sysfs, from: RecordedFiles(files: MachineFiles(), recorder: recorder))
  }

  func sources() -> [any FactSource] {
    let sources = FactSources.all(self.dnsFiles, self.devices.serialLines)
    guard let recorder else { return sources }
    return sources.map { RecordedSource(source: $0, recorder: recorder) }
  }

  /// - Parameter adopted: The descriptor that systemd passed, for the first listener.
  func sockets(adopting adopted: CInt?) -> any SocketSource {
    let sockets = KernelSockets(adopting: adopted)
    return self.recorder.map { RecordedSockets(sockets: sockets, recorder: $0) } ?? sockets
  }
}
