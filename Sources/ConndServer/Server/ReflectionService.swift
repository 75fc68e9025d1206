import ConnectivityProtobuf
import GRPCCore
import StandardServices

/// Implements `grpc.reflection.v1.ServerReflection`, also under the name of its predecessor, which
/// most tools still use.
struct ReflectionService: RegistrableRPCService {
  private let files: FileDescriptors

  init() throws {
    self.files = try FileDescriptors()
  }

  private static let method = "ServerReflectionInfo"
  private static let names = [
    "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
  ]

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    for name in Self.names {
      router.registerHandler(
        forMethod: MethodDescriptor(fullyQualifiedService: name, method: Self.method),
        deserializer: ProtobufDeserializer<Grpc_Reflection_V1_ServerReflectionRequest>(),
        serializer: ProtobufSerializer<Grpc_Reflection_V1_ServerReflectionResponse>()
      ) { stream, _ in
        StreamingServerResponse { writer in
          for try await request in stream.messages {
            try await writer.write(self.answer(request))
          }
          return [:]
        }
      }
    }
  }

  private func answer(
    _ request: Grpc_Reflection_V1_ServerReflectionRequest
  ) -> Grpc_Reflection_V1_ServerReflectionResponse {
    var response = Grpc_Reflection_V1_ServerReflectionResponse()
    response.validHost = request.host
    response.originalRequest = request
    switch request.messageRequest {
    case .listServices:
      response.listServicesResponse.service = self.files.services.map { name in
        .with { $0.name = name }
      }
    case .fileByFilename(let name):
      response.messageResponse = self.found(self.files.file(named: name), name)
    case .fileContainingSymbol(let symbol):
      response.messageResponse = self.found(self.files.file(declaring: symbol), symbol)
    case .fileContainingExtension(let request):
      response.messageResponse = .errorResponse(Self.notFound(request.containingType))
    case .allExtensionNumbersOfType(let type):
      guard self.files.file(declaring: type) != nil else {
        response.messageResponse = .errorResponse(Self.notFound(type))
        break
      }
      response.allExtensionNumbersResponse.baseTypeName = type
    case nil:
      response.errorResponse = .with {
        $0.errorCode = Int32(Status.Code.invalidArgument.rawValue)
        $0.errorMessage = "message_request: is not set"
      }
    }
    return response
  }

  private func found(
    _ file: FileDescriptors.File?, _ what: String
  ) -> Grpc_Reflection_V1_ServerReflectionResponse.OneOf_MessageResponse {
    guard let file else { return .errorResponse(Self.notFound(what)) }
    return .fileDescriptorResponse(
      .with { $0.fileDescriptorProto = self.files.withImports(file).map(\.bytes) })
  }

  private static func notFound(_ what: String) -> Grpc_Reflection_V1_ErrorResponse {
    .with {
      $0.errorCode = Int32(Status.Code.notFound.rawValue)
      $0.errorMessage = "'\(what)' is unknown"
    }
  }
}
