import Glibc

/// How often a scenario repeats what chance decides: a few times, or `CONND_TIMES`.
public enum Repetitions {
  public static func count(_ few: Int) -> Int {
    getenv("CONND_TIMES").flatMap { Int(String(cString: $0)) } ?? few
  }
}
