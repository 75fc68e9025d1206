import Testing

/// A client that connd has to survive, see Tests/Programs/python/hostile.py, and its expected fate.
struct HostileClient: CustomTestStringConvertible, Sendable {
  let name: String
  /// The answers it may get: one of these.
  let fates: Set<String>
  /// The MiB that connd's memory may grow by, far above the measured value. The comment on each
  /// says why it does not grow with what the client sends.
  let bound: Int
  let mechanism: String

  var testDescription: String { "\(self.name), bounded by \(self.mechanism)" }

  init(_ name: String, _ fates: String..., below bound: Int = 8, by mechanism: String) {
    (self.name, self.fates, self.bound, self.mechanism) = (name, Set(fates), bound, mechanism)
  }

  /// In a debug build; a hundred streams take 2 to 4 MiB.
  static let all: [HostileClient] = [
    .init("never_reads", "held", by: "places in one history, a frame a connection"),
    .init(
      "reads_byte_by_byte", "held", by: "places in one history, a frame a connection"),
    .init("opens_and_closes", "held", by: "nothing is kept of a connection"),
    .init(
      "cancels", "goaway 11", "closed", below: 24,
      by: "200 resets of unanswered calls in half a minute"),
    .init(
      "asks_and_leaves", "held", below: 48,
      by: "limits.questionsPerUser; questions of closed calls are dropped"),
    .init("hears_no_more", "held", by: "an error of send(2) closes"),
    .init(
      "refused_streams", "goaway 11", "closed", "held", below: 16,
      by: "200 invalid frames in half a minute"),
    .init("dies_at_birth", "goaway 1", "closed", by: "nothing is kept of a connection"),
    .init("garbage", "goaway 1", "goaway 6", "closed", by: "the preface, frames of 16 KiB"),
    .init("half_frames", "held", below: 128, by: "limits.connectionsPerUser, frames of 16 KiB"),
    .init("half_messages", "held", below: 96, by: "limits.streamsPerUser, limits.messageSize"),
    .init("refuses_answers", "held", below: 48, by: "256 answers a stream, the stream's window"),
    .init("malformed", "reset 1", by: "nothing is kept of a request that is none"),
    .init(
      "faults_when_answered", "goaway 11", "closed", below: 24,
      by: "200 resets by connd in half a minute"),
    .init(
      "forbidden_frames", "goaway 1 reset 1", by: "nothing is kept of a connection that is closed"),
    .init("random_frames", "held", below: 24, by: "what bounds each of these"),
    .init("header_bomb", "reset 0", by: "16 KiB of headers, decompressed"),
    .init("continuations", "goaway 11", "closed", by: "16 KiB of encoded headers"),
    .init("pings", "goaway 11", "closed", by: "200 frames in half a minute"),
    .init("settings", "goaway 11", "closed", by: "200 frames in half a minute"),
    .init("empty_data", "goaway 11", "closed", by: "200 frames in half a minute"),
    .init("declares_100_megabytes", "trailers", by: "limits.messageSize"),
    .init("sends_100_megabytes", "RESOURCE_EXHAUSTED", by: "limits.messageSize"),
    .init("too_many_streams", "goaway 1", "closed", below: 64, by: "limits.streamsPerConnection"),
  ]
}
