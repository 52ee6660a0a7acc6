// What a processor asks while it works, answered by the test.

#ifndef TWINPATH_TESTS_AGENT_FAKE_CONTROL_H_
#define TWINPATH_TESTS_AGENT_FAKE_CONTROL_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/cell_processor.h"

namespace twinpath::agent {

class FakeControl final : public CellControl {
 public:
  bool MayStart() override { return may_start && !stopping; }
  std::optional<std::string> Start() override {
    if (!MayStart()) return std::nullopt;
    started = true;
    return "lease-now";
  }
  v1::Reason WhyNot() override { return MakeAgentReason("TP306", "too late"); }
  bool Stopping() override { return stopping; }
  void Wait(absl::Duration) override {
    ++waits;
    if (on_wait) on_wait();
  }
  void Progress(v1::Path, absl::string_view text) override {
    progress.emplace_back(text);
  }

  bool may_start = true;
  bool stopping = false;
  bool started = false;
  int waits = 0;
  std::function<void()> on_wait;
  std::vector<std::string> progress;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_TESTS_AGENT_FAKE_CONTROL_H_
