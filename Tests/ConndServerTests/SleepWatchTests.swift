import Glibc
import Testing

@testable import ConndServer

@Suite("Sleep")
struct SleepWatchTests {
  @Test("I6 only what the clocks differ by is sleep")
  func detector() {
    var detector = SleepDetector(slept: .seconds(7))
    #expect(detector.check(.seconds(7)) == nil)
    // What passes between two readings of the clocks.
    #expect(detector.check(.seconds(7) + .milliseconds(3)) == nil)
    #expect(detector.check(.seconds(7) - .milliseconds(3)) == nil)
    #expect(detector.check(.seconds(67)) == .seconds(60))
    #expect(detector.check(.seconds(67)) == nil)
  }

  @Test("D7 the timer that tells of sleep never expires by itself")
  func timer() throws {
    var watch = SleepWatch()
    #expect(watch.check() == nil)
    var wait = pollfd(fd: watch.fileDescriptor, events: Int16(POLLIN), revents: 0)
    #expect(poll(&wait, 1, 0) == 0)
    var left = itimerspec()
    #expect(timerfd_gettime(watch.fileDescriptor, &left) == 0)
    #expect(left.it_value.tv_sec > 365 * 24 * 3600)
    watch.rearm()
    #expect(poll(&wait, 1, 0) == 0)
  }
}
