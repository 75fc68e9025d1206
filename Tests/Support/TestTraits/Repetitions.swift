import Glibc

/// The number of times that a scenario repeats its random parts: a few, or `CONND_TIMES`.
public enum Repetitions {
  public static func count(_ few: Int) -> Int {
    getenv("CONND_TIMES").flatMap { Int(String(cString: $0)) } ?? few
  }
}
