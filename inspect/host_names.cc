#include "inspect/host_names.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kWindow = 1 << 20;
// Shorter names occur by chance; they are taken as named.
constexpr size_t kTail = 4;
// Most bytes of names in the list.
constexpr size_t kMaxListedBytes = 1 << 20;
constexpr char kMangled[] = "_Z";
// Bytes compared or hashed, at most, for each byte of the file and beside. What
// needs more was made to.
constexpr uint64_t kWorkPerByte = 16;
constexpr uint64_t kWorkBeside = uint64_t{256} << 20;

bool Unread(const v1::FileReport& report) {
  return std::any_of(report.problems().begin(), report.problems().end(),
                     [](const v1::Reason& reason) {
                       return reason.code() == "TP232" ||
                              reason.code() == "TP233" ||
                              reason.code() == "TP229" ||
                              reason.code() == "TP230" ||
                              reason.code() == "TP215";
                     });
}

// Whether all code is registered and known, so that a name that is nowhere
// means something.
bool Applies(const v1::FileReport& report) {
  if (!report.kernels_read() || report.wrappers().empty() || Unread(report) ||
      (report.kind() != v1::FILE_KIND_ELF_EXECUTABLE &&
       report.kind() != v1::FILE_KIND_ELF_SHARED)) {
    return false;
  }
  bool any = false;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (fatbin.damaged()) return false;
    if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) continue;
    for (const v1::Image& image : fatbin.images()) {
      // LTO-IR and unknown kinds cannot be read.
      if (!image.kernels_read()) return false;
      if (image.kernels().empty()) continue;
      any = true;
      if (fatbin.registration() != v1::REGISTRATION_REGISTERED) return false;
    }
  }
  return any;
}

// The names that are still looked for, and the search in one piece of data.
class NameSearch {
 public:
  explicit NameSearch(uint64_t work) : work_left_(work) {}

  void Add(absl::string_view name) {
    longest_ = std::max(longest_, name.size());
    if (absl::StartsWith(name, kMangled)) {
      if (mangled_.insert(name).second) lengths_.insert(name.size());
    } else {
      const uint32_t tail = LoadU32(name.data() + name.size() - kTail);
      std::vector<absl::string_view>& same_tail = others_[tail];
      // Few have the same last bytes; what is in twice is found twice.
      if (other_names_.insert(name).second) {
        same_tail.push_back(name);
        tails_.set(HashOfTail(tail));
      }
    }
  }
  size_t longest() const { return longest_; }
  bool done() const { return mangled_.empty() && other_names_.empty(); }
  bool gave_up() const { return gave_up_; }

  // Takes the names found in `data` off the list.
  void Search(absl::string_view data) {
    if (!mangled_.empty()) SearchMangled(data);
    if (!other_names_.empty()) SearchOthers(data);
  }

  // What is left, sorted.
  std::vector<absl::string_view> Left() const {
    std::vector<absl::string_view> left(mangled_.begin(), mangled_.end());
    left.insert(left.end(), other_names_.begin(), other_names_.end());
    std::sort(left.begin(), left.end());
    return left;
  }

 private:
  static constexpr size_t kTailBits = 1 << 16;
  static size_t HashOfTail(uint32_t tail) { return (tail * 2654435761u) >> 16; }

  bool Spend(uint64_t work) {
    if (work_left_ < work) {
      gave_up_ = true;
      return false;
    }
    work_left_ -= work;
    return true;
  }

  // Names that start with _Z: from each _Z to the next NUL.
  void SearchMangled(absl::string_view data) {
    const char* const end = data.data() + data.size();
    const char* at = data.data();
    const char* nul = nullptr;
    while (!gave_up_ && at < end) {
      at = static_cast<const char*>(
          ::memchr(at, '_', static_cast<size_t>(end - at)));
      if (at == nullptr || at + 1 >= end) return;
      if (at[1] != 'Z') {
        ++at;
        continue;
      }
      if (nul == nullptr || nul < at) {
        nul = static_cast<const char*>(
            ::memchr(at, 0, static_cast<size_t>(end - at)));
        if (nul == nullptr) return;
      }
      const size_t length = static_cast<size_t>(nul - at);
      if (lengths_.contains(length)) {
        if (!Spend(length)) return;
        mangled_.erase(absl::string_view(at, length));
      }
      at += 2;
    }
  }

  // Names of extern "C" kernels: backwards from each NUL.
  void SearchOthers(absl::string_view data) {
    const char* const end = data.data() + data.size();
    const char* at = data.data();
    while (!gave_up_ && at < end) {
      const char* const nul = static_cast<const char*>(
          ::memchr(at, 0, static_cast<size_t>(end - at)));
      if (nul == nullptr) return;
      const size_t before = static_cast<size_t>(nul - data.data());
      if (before >= kTail && static_cast<size_t>(nul - at) >= kTail) {
        const uint32_t tail = LoadU32(nul - kTail);
        if (tails_.test(HashOfTail(tail))) TakeEnding(data.substr(0, before));
      }
      at = nul + 1;
      while (at < end && *at == 0) ++at;
    }
  }

  // Takes off the names that `data` ends with.
  void TakeEnding(absl::string_view data) {
    const auto same_tail =
        others_.find(LoadU32(data.data() + data.size() - kTail));
    if (same_tail == others_.end()) return;
    std::vector<absl::string_view>& names = same_tail->second;
    for (size_t i = 0; i < names.size();) {
      if (!Spend(std::min<size_t>(names[i].size(), 64))) return;
      if (absl::EndsWith(data, names[i])) {
        if (!Spend(names[i].size())) return;
        other_names_.erase(names[i]);
        names[i] = names.back();
        names.pop_back();
      } else {
        ++i;
      }
    }
  }

  uint64_t work_left_;
  bool gave_up_ = false;
  size_t longest_ = 0;
  absl::flat_hash_set<absl::string_view> mangled_;
  absl::flat_hash_set<size_t> lengths_;
  absl::flat_hash_set<absl::string_view> other_names_;
  absl::flat_hash_map<uint32_t, std::vector<absl::string_view>> others_;
  std::bitset<kTailBits> tails_;
};

// The ranges without the fatbins in them, sorted.
std::vector<ScanRange> HostRanges(const std::vector<ScanRange>& ranges,
                                  const v1::FileReport& report) {
  std::vector<std::pair<uint64_t, uint64_t>> fatbins;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    fatbins.emplace_back(fatbin.offset(),
                         fatbin.offset() + fatbin.size_bytes());
  }
  std::sort(fatbins.begin(), fatbins.end());
  std::vector<ScanRange> host;
  auto fatbin = fatbins.begin();
  for (const ScanRange& range : ranges) {
    uint64_t at = range.begin;
    while (at < range.end) {
      while (fatbin != fatbins.end() && fatbin->second <= at) ++fatbin;
      const uint64_t end = fatbin == fatbins.end()
                               ? range.end
                               : std::min(range.end, fatbin->first);
      if (end > at) host.push_back({at, end, range.code});
      if (end >= range.end) break;
      at = fatbin->second;
    }
  }
  return host;
}

}  // namespace

absl::Status FindUnnamedKernels(const ByteSource& source,
                                const std::vector<ScanRange>& ranges,
                                v1::FileReport& report) {
  if (!Applies(report)) return absl::OkStatus();
  const std::vector<ScanRange> host = HostRanges(ranges, report);
  uint64_t bytes = 0;
  for (const ScanRange& range : host) bytes += range.end - range.begin;
  NameSearch search(bytes * kWorkPerByte + kWorkBeside);
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (fatbin.registration() != v1::REGISTRATION_REGISTERED) continue;
    for (const v1::Image& image : fatbin.images()) {
      for (const v1::Kernel& kernel : image.kernels()) {
        if (kernel.name().size() >= kTail &&
            kernel.name().size() <= kMaxSearchedName) {
          search.Add(kernel.name());
        }
      }
    }
  }
  // Windows overlap by the longest name and its NUL.
  const size_t overlap = search.longest() + 1;
  std::string window;
  for (const ScanRange& range : host) {
    uint64_t at = range.begin;
    while (at < range.end && !search.done() && !search.gave_up()) {
      const size_t n = std::min<uint64_t>(kWindow + overlap, range.end - at);
      window.resize(n);
      TWINPATH_RETURN_IF_ERROR(source.ReadAt(at, n, window.data()));
      search.Search(window);
      if (at + n >= range.end) break;
      at += n - overlap;
    }
  }
  if (search.done() || search.gave_up()) return absl::OkStatus();
  const std::vector<absl::string_view> left = search.Left();
  report.set_unnamed_kernel_count(left.size());
  size_t listed = 0;
  for (absl::string_view name : left) {
    listed += name.size();
    if (report.unnamed_kernels_size() >= kMaxUnnamedKernels ||
        listed > kMaxListedBytes) {
      break;
    }
    report.add_unnamed_kernels(std::string(name));
  }
  v1::Reason& reason = *report.add_problems();
  reason.set_code("TP240");
  reason.set_detail(absl::StrCat(
      left.size(), left.size() == 1 ? " kernel has" : " kernels have",
      " an image and no host code that names ",
      left.size() == 1 ? "it: " : "them, first ",
      Printable(left[0].substr(0, 256))));
  return absl::OkStatus();
}

}  // namespace twinpath::inspect
