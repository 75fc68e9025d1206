#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "connectivity/v1/connectivity.grpc.pb.h"

// Holds a channel to one address, and replaces it when connd reports that its network is gone.
// Calls in flight end with CANCELLED, and the next call reconnects. If connd is not running, or is
// in another network namespace, the channel is like any other.
class GuardedChannel {
 public:
  // `target` is ADDRESS:PORT with a numeric address, `socket` the path of connd's socket.
  GuardedChannel(const std::string& target, const std::string& socket);

  // The context of one call, which must use its channel. For the synchronous API.
  class Call : public grpc::ClientContext {
   public:
    explicit Call(GuardedChannel& guarded);
    ~Call();
    const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

   private:
    GuardedChannel& guarded_;
    std::shared_ptr<grpc::Channel> channel_;
  };

 private:
  using Stream = grpc::ClientReaderWriter<connectivity::v1::GuardRequest, connectivity::v1::GuardResponse>;

  std::shared_ptr<grpc::Channel> Connect() const;
  void Replace();
  void Follow(std::stop_token stop);
  bool Add(Stream& stream);
  void Heed(const connectivity::v1::GuardResponse& answer, Stream& stream);

  const std::string target_;
  const std::unique_ptr<connectivity::v1::Connectivity::Stub> connd_;
  // These two are used only by the thread below.
  connectivity::v1::Flow flow_;
  bool offline_ = false;

  std::mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
  std::set<grpc::ClientContext*> calls_;

  std::jthread thread_;
};
