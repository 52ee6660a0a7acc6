#include "agent/session_stream.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "agent/grpc_channel.h"

namespace twinpath::agent {

std::shared_ptr<SessionStream> SessionStream::Start(
    v1::AgentService::Stub& stub, Session& session, uint64_t number,
    std::function<void()> on_event) {
  std::shared_ptr<SessionStream> stream(
      new SessionStream(session, number, std::move(on_event)));
  stub.async()->Connect(&stream->context_, stream.get());
  // One hold for as long as writes may be started from outside; see Close.
  stream->AddHold();
  stream->StartRead(&stream->read_);
  stream->StartCall();
  stream->Wake();
  return stream;
}

void SessionStream::Wake() {
  {
    MutexLock lock(mutex_);
    if (half_closed_ || closed_) return;
    if (writing_) {
      again_ = true;
      return;
    }
    // Reserved first: the session takes its own lock, never under ours.
    writing_ = true;
    // OnDone must not come between this and StartWrite.
    AddHold();
  }
  enum class Then { kAsk, kWrite, kHalfClose, kNothing };
  Then then = Then::kAsk;
  while (then == Then::kAsk) {
    std::optional<v1::AgentMessage> message = session_.Next(number_);
    MutexLock lock(mutex_);
    then = Then::kNothing;
    if (!closed_ && half_closed_) {
      // Asked for meanwhile; it waited for this.
      then = Then::kHalfClose;
    } else if (!closed_ && message) {
      write_ = *std::move(message);
      then = Then::kWrite;
    } else if (!closed_ && again_) {
      then = Then::kAsk;
    }
    // Whoever woke us while we asked is answered by asking once more.
    again_ = false;
    writing_ = then == Then::kAsk || then == Then::kWrite;
  }
  if (then == Then::kWrite) StartWrite(&write_);
  if (then == Then::kHalfClose) StartWritesDone();
  RemoveHold();
}

void SessionStream::OnWriteDone(bool ok) {
  bool half_close = false;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    half_close = ok && half_closed_ && !closed_;
  }
  if (!ok) {
    Close();
  } else if (half_close) {
    StartWritesDone();
  } else {
    Wake();
  }
}

void SessionStream::HalfClose() {
  {
    MutexLock lock(mutex_);
    if (half_closed_ || closed_) return;
    half_closed_ = true;
    if (writing_) return;  // done behind the write
    AddHold();
  }
  StartWritesDone();
  RemoveHold();
}

void SessionStream::OnReadDone(bool ok) {
  if (!ok) {
    Close();
    return;
  }
  session_.OnMessage(number_, read_);
  read_.Clear();
  StartRead(&read_);
  Wake();
  on_event_();
}

void SessionStream::Cancel(const absl::Status& why) {
  {
    MutexLock lock(mutex_);
    if (done_) return;
    if (why_.ok()) why_ = why;
  }
  context_.TryCancel();
}

void SessionStream::Close() {
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    closed_ = true;
  }
  RemoveHold();
}

void SessionStream::OnDone(const grpc::Status& status) {
  // Whoever sees done_ may destroy this at once.
  const std::function<void()> on_event = on_event_;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    status_ = !why_.ok() ? why_ : FromGrpc(status);
    done_ = true;
  }
  on_event();
}

bool SessionStream::done() const {
  MutexLock lock(mutex_);
  return done_;
}

absl::Status SessionStream::status() const {
  MutexLock lock(mutex_);
  return status_;
}

}  // namespace twinpath::agent
