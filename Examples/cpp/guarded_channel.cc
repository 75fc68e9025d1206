#include "guarded_channel.h"

#include <sys/stat.h>

#include <chrono>
#include <condition_variable>

#include "log.h"

using namespace connectivity::v1;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<grpc::Channel> ConndChannel(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

// The address of "ADDRESS:PORT", without the brackets of IPv6.
std::string Address(const std::string& target) {
  std::string address = target.substr(0, target.rfind(':'));
  return address.starts_with('[') ? address.substr(1, address.size() - 2) : address;
}

// Returns the network namespace of this process, or 0 if /proc does not reveal it.
uint64_t NetworkNamespace() {
  struct stat status;
  return stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

// Returns whether connd and this process are in the same network namespace.
bool Concerns(const GuardResponse& answer) {
  uint64_t own = NetworkNamespace(), connd = answer.network_namespace();
  return own == 0 || connd == 0 || connd == own;
}

// Returns the cost of a path, for applications that save data.
std::string Cost(const Path& path) {
  static const char* const words[] = {"free", "expensive", "constrained", "expensive and constrained"};
  return words[(path.expensive() ? 1 : 0) + (path.constrained() ? 2 : 0)];
}

}  // namespace

GuardedChannel::GuardedChannel(const std::string& target, const std::string& socket)
    : target_(target), connd_(Connectivity::NewStub(ConndChannel(socket))) {
  flow_.set_id(1);
  flow_.set_remote(Address(target));
  flow_.set_remote_port(std::stoul(target.substr(target.rfind(':') + 1)));
  // Do not miss changes between the start of the connection and its registration.
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 1s);
  Status status;
  if (connd_->GetStatus(&context, {}, &status).ok()) flow_.set_since_generation(status.generation());
  channel_ = Connect();
  thread_ = std::jthread([this](std::stop_token stop) { Follow(stop); });
}

GuardedChannel::Call::Call(GuardedChannel& guarded) : guarded_(guarded) {
  std::lock_guard lock(guarded.mutex_);
  channel_ = guarded.channel_;
  guarded.calls_.insert(this);
}

GuardedChannel::Call::~Call() {
  std::lock_guard lock(guarded_.mutex_);
  guarded_.calls_.erase(this);
}

std::shared_ptr<grpc::Channel> GuardedChannel::Connect() const {
  grpc::ChannelArguments arguments;
  // By default, channels to one target share a connection. The new channel must not reuse the dead one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target_, grpc::InsecureChannelCredentials(), arguments);
}

void GuardedChannel::Replace() {
  std::lock_guard lock(mutex_);
  channel_ = Connect();
  for (auto* call : calls_) call->TryCancel();
}

void GuardedChannel::Follow(std::stop_token stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any pause;
  while (!stop.stop_requested()) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    std::stop_callback cancel(stop, [&] { context.TryCancel(); });
    auto stream = connd_->Guard(&context);
    GuardResponse answer;
    if (Add(*stream)) {
      while (stream->Read(&answer)) {
        if (Concerns(answer)) Heed(answer, *stream);
      }
    }
    stream->Finish();
    pause.wait_for(lock, stop, 1s, [] { return false; });
  }
}

bool GuardedChannel::Add(Stream& stream) {
  GuardRequest request;
  *request.mutable_add() = flow_;
  return stream.Write(request);
}

void GuardedChannel::Heed(const GuardResponse& answer, Stream& stream) {
  // If connd restarts, this tells it what it last reported about the flow, and when.
  flow_.set_since_generation(answer.generation());
  if (answer.has_path() || answer.has_better_path_gone()) {
    const Path& path = answer.has_path() ? answer.path() : answer.better_path_gone();
    bool satisfied = path.status() == PATH_STATUS_SATISFIED;
    if (!flow_.has_known_path()) {
      Log("guarded, by " + (path.has_interface() ? path.interface() : "no path"));
      offline_ = !satisfied;
    } else if (offline_ && satisfied) {
      offline_ = false;
      Replace();  // The old one may be in a backoff, which is no longer needed.
    } else if (Cost(path) != Cost(flow_.known_path())) {
      Log("the path is " + Cost(path) + " now");
    }
    *flow_.mutable_known_path() = path;
  } else if (answer.has_invalidation()) {
    const FlowInvalidation& invalidation = answer.invalidation();
    Log(InvalidationSeverity_Name(invalidation.severity()) + ": " + InvalidationReason_Name(invalidation.reason()));
    if (invalidation.severity() != INVALIDATION_SEVERITY_DESTROY) return;
    flow_.clear_known_path();
    Replace();
    Add(stream);
  } else if (answer.has_refused()) {
    Log("not guarded: " + answer.refused().message());
  }
}
