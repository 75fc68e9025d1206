import ConnectivityClient
import GRPCCore
import GRPCProtobuf
import SwiftProtobuf
import Testing

/// A bidirectional call to an ``EchoServer``, one word after the other.
final class Conversation: Sendable {
  private let words: AsyncStream<String>.Continuation
  private let answers: AsyncStream<String>
  private let call: Task<Void, any Error>

  init(_ client: GRPCClient<NetworkAwareTransport>) async throws {
    typealias Message = Google_Protobuf_StringValue
    let (spoken, words) = AsyncStream.makeStream(of: String.self)
    let (answers, answered) = AsyncStream.makeStream(of: String.self)
    self.words = words
    self.answers = answers
    self.call = Task {
      defer { answered.finish() }
      try await client.bidirectionalStreaming(
        request: StreamingClientRequest { writer in
          for await word in spoken { try await writer.write(Message(word)) }
        },
        descriptor: EchoServer.update, serializer: ProtobufSerializer<Message>(),
        deserializer: ProtobufDeserializer<Message>(), options: .defaults
      ) { response in
        for try await message in response.messages { answered.yield(message.value) }
      }
    }
  }

  /// Sends a word, and returns the answer, or `nil` if the call has ended.
  func say(
    _ word: String, sourceLocation: SourceLocation = #_sourceLocation
  ) async -> String? {
    self.words.yield(word)
    return await waiting(for: "the answer to '\(word)'", sourceLocation) {
      await self.answers.first { _ in true }
    }
  }

  /// - Throws: The call's error.
  func end() async throws {
    self.words.finish()
    try await self.call.value
  }
}
