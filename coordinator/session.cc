#include "coordinator/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "coordinator/enrolment.h"
#include "coordinator/proto_time.h"

namespace twinpath::coordinator {
namespace {

// A store this far behind grants no leases.
constexpr int64_t kBehind = 2000;
constexpr absl::Duration kNotableSkew = absl::Seconds(60);
// A clock that is further off than this is told as being so far off, since
// whatever shows it must be able to write it.
constexpr absl::Duration kMostSkew = absl::Hours(24 * 365 * 100);
// Versions and ids in hello.
constexpr size_t kMaxHelloText = 256;

std::string DescribeRange(uint32_t low, uint32_t high) {
  return low == high ? absl::StrCat(low) : absl::StrCat(low, " to ", high);
}

// The highest version both speak.
absl::StatusOr<uint32_t> Negotiate(const v1::Hello& hello) {
  const uint32_t low = std::max(hello.protocol_min(), kProtocolMin);
  const uint32_t high = std::min(hello.protocol_max(), kProtocolMax);
  if (low <= high) return high;
  return absl::FailedPreconditionError(absl::StrCat(
      "no common protocol version: the agent ",
      Printable(hello.agent_version()), " speaks ",
      DescribeRange(hello.protocol_min(), hello.protocol_max()),
      ", this coordinator ", kVersion, " speaks ",
      DescribeRange(kProtocolMin, kProtocolMax), "; upgrade the ",
      hello.protocol_max() < kProtocolMin ? "agent" : "coordinator"));
}

}  // namespace

absl::Duration HeartbeatInterval(const SessionOptions& options,
                                 size_t sessions) {
  return std::max(options.shortest_heartbeat,
                  absl::Seconds(static_cast<double>(sessions) /
                                options.heartbeats_per_second));
}

void Session::Start() {
  {
    MutexLock lock(mutex_);
    heard_ = context_.clock.Monotonic();
  }
  context_.sessions.AddNew(shared_from_this(), context_.clock.Monotonic());
}

std::string Session::host_id() const {
  MutexLock lock(mutex_);
  return host_.id;
}

absl::Time Session::last_heard() const {
  MutexLock lock(mutex_);
  return busy_ ? context_.clock.Monotonic() : heard_;
}

absl::Time Session::last_seen() const {
  MutexLock lock(mutex_);
  return seen_;
}

absl::Duration Session::heartbeat_interval() const {
  MutexLock lock(mutex_);
  return interval_;
}

void Session::SendLocked(v1::CoordinatorMessage message) {
  if (peer_ != nullptr) peer_->Send(std::move(message));
}

void Session::ReadNext() {
  MutexLock lock(mutex_);
  heard_ = context_.clock.Monotonic();
  busy_ = false;
  if (peer_ != nullptr) peer_->ReadNext();
}

void Session::Close(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (peer_ == nullptr) return;
  std::exchange(peer_, nullptr)->Close(status);
}

void Session::OnClosed() {
  std::string host_id;
  std::string name;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    peer_ = nullptr;
    host_id = host_.id;
    name = host_.name;
    number = number_;
  }
  // The registry's copy may have been the last but the caller's.
  const std::shared_ptr<Session> self = shared_from_this();
  context_.sessions.RemoveNew(this);
  if (number == 0) return;
  context_.sessions.Detach(host_id, number);
  Log(LogLevel::kInfo, "session closed",
      {{"host", name}, {"session", absl::StrCat(number)}});
}

void Session::OnMessage(const v1::AgentMessage& message) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    if (peer_ == nullptr) return;
    busy_ = true;
    first = !std::exchange(hello_seen_, true);
    if (!first) seen_ = context_.store.Now();
  }
  if (first != (message.message_case() == v1::AgentMessage::kHello)) {
    Close(absl::InvalidArgumentError(
        first ? "the first message of a session must be hello"
              : "hello comes once, as the first message"));
    return;
  }
  switch (message.message_case()) {
    case v1::AgentMessage::kHello:
      return OnHello(message.hello());
    case v1::AgentMessage::kFacts:
      return OnFacts(message.facts());
    case v1::AgentMessage::kHeartbeat:
      return OnHeartbeat(message.heartbeat());
    case v1::AgentMessage::kProgress:
      return OnProgress(message.progress());
    case v1::AgentMessage::kResult:
      return OnResult(message.result());
    case v1::AgentMessage::kRefusal:
      return OnRefusal(message.refusal());
    case v1::AgentMessage::MESSAGE_NOT_SET:
      // A kind of a later minor version: nothing this one could do with it.
      return ReadNext();
  }
}

void Session::OnHello(const v1::Hello& hello) {
  const absl::StatusOr<uint32_t> protocol = Negotiate(hello);
  if (!protocol.ok()) {
    Log(LogLevel::kWarning, "session refused",
        {{"why", std::string(protocol.status().message())}});
    Close(protocol.status());
    return;
  }
  if (hello.held_cell_ids_size() > kMaxHeldCells) {
    Close(absl::InvalidArgumentError("hello lists too many cells"));
    return;
  }
  for (const std::string* text :
       {&hello.host_id(), &hello.agent_version(), &hello.boot_id()}) {
    if (text->size() > kMaxHelloText) {
      Close(absl::InvalidArgumentError(absl::StrCat(
          "host id, agent version and boot id in hello take at most ",
          kMaxHelloText, " bytes each")));
      return;
    }
  }
  struct Outcome {
    HostRow host;
    uint64_t number = 0;
    std::vector<std::string> give_up;
    ChangedSweeps changed;
  };
  const auto outcome = std::make_shared<Outcome>();
  const std::shared_ptr<Session> self = shared_from_this();
  context_.store.Submit(
      [self, hello, outcome](StoreTransaction& transaction) -> absl::Status {
        *outcome = Outcome();
        const absl::Time now = self->context_.store.Now();
        TWINPATH_ASSIGN_OR_RETURN(
            outcome->host,
            Authenticate(transaction, hello.host_id(), hello.secret()));
        const HostRow& host = outcome->host;
        TWINPATH_ASSIGN_OR_RETURN(outcome->number,
                                  transaction.RaiseSession(host.id));
        const absl::Duration skew =
            hello.has_clock() ? std::clamp(FromProto(hello.clock()) - now,
                                           -kMostSkew, kMostSkew)
                              : absl::ZeroDuration();
        TWINPATH_RETURN_IF_ERROR(transaction.PutHello(
            host.id, now, skew, hello.agent_version(), hello.boot_id()));
        if (absl::AbsDuration(skew) > kNotableSkew) {
          Log(LogLevel::kWarning, "clock skew (TP116)",
              {{"host", host.name}, {"skew", absl::FormatDuration(skew)}});
        }
        TWINPATH_ASSIGN_OR_RETURN(
            outcome->give_up,
            self->context_.dispatcher.Held(
                transaction, host.id, outcome->number,
                {hello.held_cell_ids().begin(), hello.held_cell_ids().end()},
                /*hello=*/true, now, outcome->changed));
        return absl::OkStatus();
      },
      [self, outcome, boot = hello.boot_id()](const absl::Status& status) {
        if (!status.ok()) {
          Log(LogLevel::kWarning, "session refused",
              {{"why", std::string(status.message())}});
          self->Close(status);
          return;
        }
        const std::string& known_boot = outcome->host.boot_id;
        if (!known_boot.empty() && known_boot != boot &&
            self->context_.sessions.IsConnected(outcome->host.id)) {
          Log(LogLevel::kWarning,
              "a second machine uses this identity (TP415), or the host was "
              "restarted without ending its session",
              {{"host", outcome->host.name}});
        }
        self->Opened(outcome->host, outcome->number, outcome->give_up);
        if (!outcome->changed.empty()) {
          self->context_.events.OnSweepsChanged(outcome->changed);
        }
      });
}

void Session::Opened(const HostRow& host, uint64_t number,
                     const std::vector<std::string>& give_up) {
  const std::shared_ptr<Session> self = shared_from_this();
  {
    MutexLock lock(mutex_);
    if (peer_ == nullptr) return;
    host_ = host;
    number_ = number;
    seen_ = context_.store.Now();
    interval_ = HeartbeatInterval(context_.options, context_.sessions.size());
  }
  context_.sessions.RemoveNew(this);
  const std::shared_ptr<Session> replaced =
      context_.sessions.Attach(host.id, number, self);
  if (replaced != nullptr) {
    replaced->Close(absl::AbortedError(absl::StrCat(
        "a newer session of host ", host.name, " has taken over")));
    if (replaced == self) return;
  }
  bool gone = false;
  {
    MutexLock lock(mutex_);
    gone = peer_ == nullptr;
    v1::CoordinatorMessage message;
    v1::HelloAck& ack = *message.mutable_hello_ack();
    ack.set_protocol(kProtocolVersion);
    ack.set_session(number);
    *ack.mutable_heartbeat_interval() = ToProto(interval_);
    ack.set_coordinator_version(kVersion.data(), kVersion.size());
    SendLocked(std::move(message));
    open_ = true;
    for (const std::string& cell : give_up) {
      v1::CoordinatorMessage cancel;
      cancel.mutable_cancel()->set_cell_id(cell);
      SendLocked(std::move(cancel));
    }
  }
  if (gone) {
    // It closed between the two locks, when it was not attached yet.
    context_.sessions.Detach(host.id, number);
    return;
  }
  Log(LogLevel::kInfo, "session opened",
      {{"host", host.name}, {"session", absl::StrCat(number)}});
  ReadNext();
}

void Session::RunFenced(
    std::function<absl::Status(StoreTransaction&, ChangedSweeps&)> work,
    std::function<void()> then) {
  std::string host_id;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    host_id = host_.id;
    number = number_;
  }
  const auto changed = std::make_shared<ChangedSweeps>();
  const std::shared_ptr<Session> self = shared_from_this();
  context_.store.Submit(
      [host_id, number, changed,
       work = std::move(work)](StoreTransaction& transaction) -> absl::Status {
        changed->clear();
        TWINPATH_RETURN_IF_ERROR(
            Dispatcher::CheckFence(transaction, host_id, number));
        return work(transaction, *changed);
      },
      [self, changed, then = std::move(then)](const absl::Status& status) {
        if (!status.ok()) {
          self->Close(status);
          return;
        }
        if (then) then();
        if (!changed->empty()) self->context_.events.OnSweepsChanged(*changed);
        self->ReadNext();
        self->Pump();
      });
}

void Session::Pump() {
  std::string host_id;
  uint64_t number = 0;
  bool fresh_only = false;
  {
    MutexLock lock(mutex_);
    if (peer_ == nullptr || number_ == 0 || !has_facts_ || refuses_ ||
        draining_) {
      return;
    }
    if (pumping_) {
      pump_again_ = true;
      return;
    }
    // The next tick asks again.
    if (context_.store.Backlog() > kBehind) return;
    pumping_ = true;
    pump_again_ = false;
    host_id = host_.id;
    number = number_;
    fresh_only = spooled_;
  }
  struct Outcome {
    Granted granted;
    ChangedSweeps changed;
  };
  const auto outcome = std::make_shared<Outcome>();
  const std::shared_ptr<Session> self = shared_from_this();
  context_.store.Submit(
      [self, host_id, number, fresh_only,
       outcome](StoreTransaction& transaction) -> absl::Status {
        *outcome = Outcome();
        TWINPATH_ASSIGN_OR_RETURN(
            outcome->granted,
            self->context_.dispatcher.Grant(
                transaction, host_id, number, fresh_only,
                self->context_.store.Now(), outcome->changed));
        return absl::OkStatus();
      },
      [self, outcome, host_id](const absl::Status& status) {
        bool again = false;
        {
          MutexLock lock(self->mutex_);
          self->pumping_ = false;
          again = std::exchange(self->pump_again_, false);
          if (status.ok()) {
            self->granted_ |= !outcome->granted.leases.empty();
            for (v1::Lease& lease : outcome->granted.leases) {
              v1::CoordinatorMessage message;
              *message.mutable_lease() = std::move(lease);
              self->SendLocked(std::move(message));
            }
          }
        }
        if (!status.ok()) {
          Log(LogLevel::kWarning, "no leases granted",
              {{"why", std::string(status.message())}});
          return;
        }
        if (!outcome->changed.empty()) {
          self->context_.events.OnSweepsChanged(outcome->changed);
        }
        if (outcome->granted.needs_refresh) {
          self->context_.events.OnFacts(host_id);
        }
        if (again) self->Pump();
      });
}

void Session::CancelCell(const std::string& cell_id) {
  v1::CoordinatorMessage message;
  message.mutable_cancel()->set_cell_id(cell_id);
  MutexLock lock(mutex_);
  // Nothing is said before hello_ack.
  if (open_) SendLocked(std::move(message));
}

void Session::Drain(absl::Duration retry_after) {
  v1::CoordinatorMessage message;
  *message.mutable_drain()->mutable_retry_after() = ToProto(retry_after);
  MutexLock lock(mutex_);
  draining_ = true;
  if (open_) {
    SendLocked(std::move(message));
  } else if (peer_ != nullptr) {
    std::exchange(peer_, nullptr)
        ->Close(absl::UnavailableError("the coordinator is stopping"));
  }
}

}  // namespace twinpath::coordinator
