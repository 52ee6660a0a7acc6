#include "agent/session.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "agent/fault_point.h"
#include "agent/lease_book.h"
#include "agent/time_proto.h"
#include "base/log.h"
#include "base/status.h"
#include "base/version.h"
#include "google/protobuf/util/message_differencer.h"

namespace twinpath::agent {

bool SameFacts(const v1::HostFacts& a, const v1::HostFacts& b) {
  const auto without_noise = [](v1::HostFacts facts) {
    facts.clear_collected_time();
    for (v1::Gpu& gpu : *facts.mutable_gpus()) gpu.clear_compute_processes();
    return facts;
  };
  return google::protobuf::util::MessageDifferencer::Equals(without_noise(a),
                                                            without_noise(b));
}

void Session::SetWake(std::function<void()> wake) {
  MutexLock lock(mutex_);
  wake_ = std::move(wake);
}

void Session::Wake() {
  std::function<void()> wake;
  {
    MutexLock lock(mutex_);
    wake = wake_;
  }
  if (wake) wake();
}

uint64_t Session::Open(const std::string& boot_id) {
  MutexLock lock(mutex_);
  ++stream_;
  open_ = true;
  hello_sent_ = false;
  ready_ = false;
  boot_id_ = boot_id;
  opened_ = clock_.Monotonic();
  error_ = absl::OkStatus();
  drained_.reset();
  heartbeat_interval_ = options_.default_heartbeat;
  facts_due_ = facts_.has_value();
  // Hello says which cells are held; what was given back before is implied.
  refusals_.clear();
  sent_.clear();
  return stream_;
}

void Session::OnClosed(uint64_t stream) {
  MutexLock lock(mutex_);
  if (stream != stream_) return;
  open_ = false;
  sent_.clear();
}

std::optional<v1::AgentMessage> Session::Next(uint64_t stream) {
  bool ready = false;
  {
    MutexLock lock(mutex_);
    if (stream != stream_ || !open_ || !error_.ok() || drained_) {
      return std::nullopt;
    }
    if (hello_sent_ && !ready_) return std::nullopt;
    ready = ready_;
  }
  // Asked without the lock: the handler has locks of its own.
  std::vector<v1::LeaseRefusal> back;
  std::optional<std::string> refuses;
  if (ready) {
    back = handler_.TakeRefusals();
    refuses = handler_.RefusesLeases();
  }
  std::vector<std::string> held = handler_.HeldCells();

  MutexLock lock(mutex_);
  if (stream != stream_ || !open_) return std::nullopt;
  return NextLocked(std::move(held), refuses, std::move(back));
}

std::optional<v1::AgentMessage> Session::NextLocked(
    std::vector<std::string> held, const std::optional<std::string>& refuses,
    std::vector<v1::LeaseRefusal> back) {
  v1::AgentMessage message;
  const absl::Time now = clock_.Monotonic();
  if (!hello_sent_) {
    hello_sent_ = true;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_protocol_min(kProtocolMin);
    hello.set_protocol_max(kProtocolMax);
    hello.set_host_id(identity_.host_id);
    hello.set_secret(identity_.secret);
    hello.set_agent_version(options_.agent_version);
    hello.set_boot_id(boot_id_);
    *hello.mutable_clock() = ToProto(clock_.Now());
    for (std::string& cell : held) hello.add_held_cell_ids(std::move(cell));
    return message;
  }
  std::move(back.begin(), back.end(), std::back_inserter(refusals_));
  if (refusals_.size() > kMostRefusals) refusals_.resize(kMostRefusals);
  if (facts_due_ && facts_) {
    facts_due_ = false;
    *message.mutable_facts() = *facts_;
    return message;
  }
  if (!refusals_.empty()) {
    *message.mutable_refusal() = std::move(refusals_.front());
    refusals_.erase(refusals_.begin());
    return message;
  }
  if (now >= heartbeat_due_) {
    heartbeat_due_ = now + heartbeat_interval_;
    v1::Heartbeat& heartbeat = *message.mutable_heartbeat();
    heartbeat.set_spooled_results(spool_.size());
    for (std::string& cell : held) {
      heartbeat.add_held_cell_ids(std::move(cell));
    }
    heartbeat.set_refuses_leases(refuses.has_value());
    heartbeat.set_refusal_reason(refuses.value_or(""));
    return message;
  }
  if (!progress_.empty()) {
    *message.mutable_progress() = std::move(progress_.begin()->second);
    progress_.erase(progress_.begin());
    return message;
  }
  return NextResult();
}

std::optional<v1::AgentMessage> Session::NextResult() {
  const absl::Time now = clock_.Monotonic();
  for (const Spool::Entry& entry : spool_.Pending()) {
    const auto sent = sent_.find(entry.result_id);
    if (sent != sent_.end() && now - sent->second < options_.result_timeout) {
      continue;
    }
    if (sent == sent_.end() && sent_.size() >= options_.max_unacknowledged) {
      continue;
    }
    absl::StatusOr<v1::CellResult> result = spool_.Read(entry.result_id);
    if (!result.ok()) {
      // The spool has set a damaged file aside and said so.
      sent_.erase(entry.result_id);
      continue;
    }
    sent_[entry.result_id] = now;
    progress_.erase(entry.cell_id);
    v1::AgentMessage message;
    *message.mutable_result() = *std::move(result);
    FaultPoint("session.before-result");
    return message;
  }
  return std::nullopt;
}

void Session::OnHelloAck(const v1::HelloAck& ack) {
  if (ready_) return;
  if (ack.protocol() < kProtocolMin || ack.protocol() > kProtocolMax) {
    error_ = absl::FailedPreconditionError(absl::StrCat(
        "the coordinator (version ", ack.coordinator_version(),
        ") chose protocol ", ack.protocol(), "; this agent speaks ",
        kProtocolMin, " to ", kProtocolMax, ": update one of the two"));
    return;
  }
  if (ack.session() <= session_) {
    Log(LogLevel::kWarning,
        "the session's number did not grow: was the coordinator's store put "
        "back to an older state?",
        {{"last", absl::StrCat(session_)},
         {"now", absl::StrCat(ack.session())}});
  }
  ready_ = true;
  ready_since_ = clock_.Monotonic();
  session_ = ack.session();
  if (ack.has_heartbeat_interval()) {
    heartbeat_interval_ =
        std::clamp(FromProto(ack.heartbeat_interval()),
                   options_.shortest_heartbeat, options_.longest_heartbeat);
  }
  // The first one at once: it says whether leases are welcome.
  heartbeat_due_ = ready_since_;
}

void Session::OnMessage(uint64_t stream,
                        const v1::CoordinatorMessage& message) {
  {
    MutexLock lock(mutex_);
    // Fenced: an older stream has no say any more.
    if (stream != stream_ || !open_ || !error_.ok()) return;
    switch (message.message_case()) {
      case v1::CoordinatorMessage::kHelloAck:
        OnHelloAck(message.hello_ack());
        break;
      case v1::CoordinatorMessage::kDrain:
        drained_ = message.drain().has_retry_after()
                       ? FromProto(message.drain().retry_after())
                       : absl::ZeroDuration();
        break;
      default:
        if (!ready_) {
          error_ = absl::FailedPreconditionError(
              "the coordinator's first message was not hello_ack");
        }
        break;
    }
    if (!ready_) return;
    if (message.has_result_ack()) sent_.erase(message.result_ack().result_id());
  }
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kLease:
      handler_.OnLease(message.lease());
      break;
    case v1::CoordinatorMessage::kResultAck: {
      const absl::Status status =
          spool_.Acknowledge(message.result_ack().result_id());
      if (!status.ok()) {
        Log(LogLevel::kError, "an acknowledged result cannot be removed",
            {{"result", message.result_ack().result_id()},
             {"why", std::string(MessageOf(status))}});
      }
      handler_.OnAcknowledged();
      break;
    }
    case v1::CoordinatorMessage::kFactsRequest:
      handler_.OnFactsRequest();
      break;
    case v1::CoordinatorMessage::kCancel:
      handler_.OnCancel(message.cancel().cell_id());
      break;
    default:
      // A newer coordinator may say more than this agent knows.
      break;
  }
}

absl::Status Session::MustEnd(uint64_t stream) const {
  MutexLock lock(mutex_);
  if (stream != stream_) return absl::CancelledError("an older stream");
  if (!error_.ok()) return error_;
  if (open_ && !ready_ && !drained_ &&
      clock_.Monotonic() - opened_ >= options_.hello_timeout) {
    return absl::DeadlineExceededError(
        absl::StrCat("no answer to hello within ",
                     absl::FormatDuration(options_.hello_timeout)));
  }
  return absl::OkStatus();
}

void Session::SetFacts(const v1::HostFacts& facts) {
  {
    MutexLock lock(mutex_);
    if (facts_ && SameFacts(*facts_, facts)) return;
    facts_ = facts;
    facts_due_ = true;
  }
  Wake();
}

void Session::ResendFacts() {
  {
    MutexLock lock(mutex_);
    facts_due_ = facts_.has_value();
  }
  Wake();
}

void Session::SetProgress(const v1::Progress& progress) {
  {
    MutexLock lock(mutex_);
    progress_[progress.cell_id()] = progress;
  }
  Wake();
}

void Session::Poke(bool heartbeat) {
  if (heartbeat) {
    MutexLock lock(mutex_);
    heartbeat_due_ = absl::InfinitePast();
  }
  Wake();
}

absl::Duration Session::UntilDue() const {
  MutexLock lock(mutex_);
  const absl::Time now = clock_.Monotonic();
  if (!open_) return absl::InfiniteDuration();
  if (!ready_) return opened_ + options_.hello_timeout - now;
  absl::Time due = heartbeat_due_;
  for (const auto& [id, sent] : sent_) {
    due = std::min(due, sent + options_.result_timeout);
  }
  return std::max(due - now, absl::ZeroDuration());
}

std::optional<absl::Duration> Session::drained() const {
  MutexLock lock(mutex_);
  return drained_;
}

bool Session::ready() const {
  MutexLock lock(mutex_);
  return open_ && ready_;
}

absl::Duration Session::ready_for() const {
  MutexLock lock(mutex_);
  return ready_ ? clock_.Monotonic() - ready_since_ : absl::ZeroDuration();
}

uint64_t Session::session() const {
  MutexLock lock(mutex_);
  return session_;
}

}  // namespace twinpath::agent
