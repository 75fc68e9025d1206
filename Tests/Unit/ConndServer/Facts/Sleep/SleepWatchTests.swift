import Glibc
import Testing

@testable import ConndServer

@Suite("Sleep")
struct SleepWatchTests {
  @Test("I6 only the difference between the clocks is sleep")
  func detector() {
    var detector = SleepDetector(slept: .seconds(7))
    #expect(detector.check(.seconds(7)) == nil)
    // The time between two readings of the clocks is not sleep.
    #expect(detector.check(.seconds(7) + .milliseconds(3)) == nil)
    #expect(detector.check(.seconds(7) - .milliseconds(3)) == nil)
    #expect(detector.check(.seconds(67)) == .seconds(60))
    #expect(detector.check(.seconds(67)) == nil)
  }

  @Test("D7 the timer that reports sleep never expires by itself")
  func timer() throws {
    var watch = SleepWatch()
    #expect(watch.check() == nil)
    var wait = pollfd(fd: watch.fileDescriptor, events: Int16(POLLIN), revents: 0)
    #expect(poll(&wait, 1, 0) == 0)
    // Absolute, and cancelled when the clock is set (TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET).
    let info = try #require(fopen("/proc/self/fdinfo/\(watch.fileDescriptor)", "r"))
    defer { fclose(info) }
    var text = [CChar](repeating: 0, count: 512)
    fread(&text, 1, text.count - 1, info)
    let words = String(
      decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    #expect(words.contains("settime flags: 03"), "\(words)")
    watch.rearm()
    #expect(poll(&wait, 1, 0) == 0)
  }
}
