// Guards a gRPC channel with connd, and shows what happens to its calls.
//
//     guard ADDRESS:PORT      where ../python/server.py listens
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "demo.grpc.pb.h"
#include "guarded_channel.h"
#include "log.h"

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: guard ADDRESS:PORT" << std::endl;
    return 64;
  }
  const char* socket = std::getenv("CONND_SOCKET");
  GuardedChannel server(arguments[1], socket ? socket : "/run/connd/connd.sock");
  while (true) {
    GuardedChannel::Call call(server);
    auto reader = demo::Demo::NewStub(call.channel())->Hold(&call, {});
    google::protobuf::StringValue message;
    while (reader->Read(&message)) Log("the server sees " + message.value());
    grpc::Status status = reader->Finish();
    bool isCancelled = status.error_code() == grpc::StatusCode::CANCELLED;
    Log("the call ended: " + (isCancelled ? "CANCELLED" : status.error_message()));
    if (!isCancelled) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}
