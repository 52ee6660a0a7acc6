#include "compat/tables.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/reason.h"
#include "base/status.h"
#include "base/yaml_document.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

constexpr uint64_t kMaxTableBytes = 4 << 20;
// Numbers in the tables are small; anything else is a slip of the pen.
constexpr int64_t kMaxNumber = 9999;

uint32_t ReadNumber(YamlReader reader) {
  if (!reader.present()) return 0;
  return static_cast<uint32_t>(reader.Int(0, kMaxNumber));
}

TwoPart ReadTwoPart(YamlReader reader) {
  if (!reader.present()) return {};
  const std::string text = reader.String();
  const std::optional<TwoPart> parsed = TwoPart::Parse(text);
  if (!parsed) {
    reader.Error(absl::StrCat("expected a version such as \"13.0\", got \"",
                              text, "\""));
    return {};
  }
  return *parsed;
}

std::optional<TwoPart> ReadOptionalTwoPart(YamlReader reader) {
  if (!reader.present()) return std::nullopt;
  return ReadTwoPart(reader);
}

std::string ReadDriverVersion(YamlReader reader) {
  const std::string text = reader.String();
  if (!text.empty() && !DriverVersion::Parse(text)) {
    reader.Error(absl::StrCat("expected a driver version, got \"", text, "\""));
  }
  return text;
}

std::string ReadNonEmpty(YamlReader reader) {
  std::string text = reader.String();
  if (reader.present() && text.empty()) reader.Error("must not be empty");
  return text;
}

uint32_t ReadCapability(YamlReader reader) {
  const TwoPart cc = ReadTwoPart(reader);
  return cc.major * 10 + cc.minor;
}

// Words of the tables and what they stand for.
template <typename T>
using Words = std::vector<std::pair<absl::string_view, T>>;

const Words<MessageEffect>& kEffects = *new Words<MessageEffect>{
    {"cause", MessageEffect::kCause},       {"loader", MessageEffect::kLoader},
    {"compiler", MessageEffect::kCompiler}, {"gate", MessageEffect::kGate},
    {"cpu", MessageEffect::kCpu},           {"gpu", MessageEffect::kGpu},
    {"memory", MessageEffect::kMemory},     {"hint", MessageEffect::kHint},
    {"harmless", MessageEffect::kHarmless}};
const Words<MessageJudge>& kJudges = *new Words<MessageJudge>{
    {"range", MessageJudge::kRange}, {"list", MessageJudge::kList}};
const Words<XidOrigin>& kOrigins =
    *new Words<XidOrigin>{{"application", XidOrigin::kApplication},
                          {"hardware", XidOrigin::kHardware},
                          {"fabric", XidOrigin::kFabric},
                          {"driver", XidOrigin::kDriver},
                          {"either", XidOrigin::kEither},
                          {"information", XidOrigin::kInformation}};

template <typename T>
T ReadWord(YamlReader reader, const Words<T>& words) {
  std::vector<absl::string_view> choices;
  for (const auto& [word, value] : words) choices.push_back(word);
  const std::string chosen = reader.Choice(choices);
  for (const auto& [word, value] : words) {
    if (word == chosen) return value;
  }
  return words.front().second;
}

template <typename T>
absl::string_view WordOf(T value, const Words<T>& words) {
  for (const auto& [word, known] : words) {
    if (known == value) return word;
  }
  return words.front().first;
}

std::string ReadReason(YamlReader reader) {
  if (!reader.present()) return "";
  std::string code = reader.String();
  if (FindReason(code) == nullptr) {
    reader.Error(absl::StrCat("\"", code, "\" is no reason code"));
  }
  return code;
}

// A source that anybody can look up: on the web, or in this tree.
bool HasAddress(absl::string_view source) {
  return absl::StrContains(source, "https://") ||
         absl::StrContains(source, "http://") ||
         absl::StrContains(source, "docs/") ||
         absl::StrContains(source, "tests/compat/data");
}

constexpr size_t kShortestText = 8;

// The longest fixed part of a text with stars.
absl::string_view LongestPart(absl::string_view text) {
  absl::string_view longest;
  for (const absl::string_view part : absl::StrSplit(text, '*')) {
    if (part.size() > longest.size()) longest = part;
  }
  return longest;
}

}  // namespace

absl::string_view EffectName(MessageEffect effect) {
  return WordOf(effect, kEffects);
}

absl::string_view OriginName(XidOrigin origin) {
  return WordOf(origin, kOrigins);
}

std::string TwoPart::ToString() const {
  return absl::StrCat(major, ".", minor);
}

TwoPart TwoPart::From(const v1::Version& version) {
  return {version.major(), version.minor()};
}

std::optional<TwoPart> TwoPart::Parse(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  TwoPart result;
  if (parts.size() != 2 || parts[0].size() > 4 || parts[1].size() > 4 ||
      !absl::SimpleAtoi(parts[0], &result.major) ||
      !absl::SimpleAtoi(parts[1], &result.minor)) {
    return std::nullopt;
  }
  return result;
}

std::optional<DriverVersion> DriverVersion::Parse(absl::string_view text) {
  DriverVersion result;
  for (const absl::string_view part : absl::StrSplit(text, '.')) {
    uint32_t number = 0;
    if (part.empty() || part.size() > 6 || result.parts.size() == 4 ||
        !absl::ascii_isdigit(static_cast<unsigned char>(part[0])) ||
        !absl::SimpleAtoi(part, &number)) {
      return std::nullopt;
    }
    result.parts.push_back(number);
  }
  return result;
}

// Reads the files into a Tables. One method a file.
class TablesLoader {
 public:
  absl::StatusOr<Tables> Load(const std::string& dir) {
    TWINPATH_RETURN_IF_ERROR(LoadFile(dir, "gpus.yaml", &TablesLoader::Gpus));
    TWINPATH_RETURN_IF_ERROR(
        LoadFile(dir, "drivers.yaml", &TablesLoader::Drivers));
    TWINPATH_RETURN_IF_ERROR(
        LoadFile(dir, "toolkits.yaml", &TablesLoader::Toolkits));
    TWINPATH_RETURN_IF_ERROR(
        LoadFile(dir, "errors.yaml", &TablesLoader::Errors));
    TWINPATH_RETURN_IF_ERROR(
        LoadFile(dir, "messages.yaml", &TablesLoader::Messages));
    tables_.version_ = digest_.Finish().Hex().substr(0, 12);
    return std::move(tables_);
  }

 private:
  absl::Status LoadFile(const std::string& dir, absl::string_view name,
                        void (TablesLoader::*read)(YamlReader&)) {
    const std::string path = JoinPath(dir, name);
    TWINPATH_ASSIGN_OR_RETURN_CTX(const std::string text,
                                  ReadFile(path, kMaxTableBytes),
                                  "compatibility table");
    digest_.Update(text);
    TWINPATH_ASSIGN_OR_RETURN(YamlDocument document,
                              YamlDocument::Parse(text, path));
    YamlReader root = document.root();
    sources_.clear();
    file_ = std::string(name);
    for (auto& [key, value] : root.Required("sources").Mapping()) {
      const std::string text = ReadNonEmpty(value);
      sources_[key] = tables_.sources_.size();
      tables_.sources_.push_back({std::string(name), key, text, 0});
    }
    (this->*read)(root);
    root.RejectUnknownKeys();
    return document.status();
  }

  // Each row names at least one declared source.
  void Sources(YamlReader& row) {
    YamlReader sources = row.Required("source");
    if (!sources.present()) return;
    const std::vector<std::string> names = sources.StringSequence();
    if (names.empty()) sources.Error("a row needs at least one source");
    bool has_address = false;
    for (const std::string& name : names) {
      const auto it = sources_.find(name);
      if (it == sources_.end()) {
        sources.Error(absl::StrCat("source \"", name,
                                   "\" is not declared under sources"));
      } else {
        TableSource& source = tables_.sources_[it->second];
        ++source.rows;
        has_address = has_address || HasAddress(source.text);
      }
    }
    if (!has_address && !sources_.empty()) {
      tables_.rows_without_address_.push_back(
          absl::StrCat(file_, ":", row.Place()));
    }
    row.Optional("note").String();
  }

  void Gpus(YamlReader& root) {
    std::set<uint32_t> seen;
    for (YamlReader row : root.Required("gpus").Sequence()) {
      GpuRow gpu;
      YamlReader capability = row.Required("capability");
      gpu.number = ReadCapability(capability);
      if (!seen.insert(gpu.number).second) {
        capability.Error("this compute capability stands in the table twice");
      }
      gpu.architecture = ReadNonEmpty(row.Required("architecture"));
      const std::string platform =
          row.Required("platform")
              .Choice({"discrete", "integrated-server", "tegra"});
      gpu.platform = platform == "tegra" ? GpuPlatform::kTegra
                     : platform == "integrated-server"
                         ? GpuPlatform::kIntegratedServer
                         : GpuPlatform::kDiscrete;
      gpu.products = row.Required("products").StringSequence();
      YamlReader suffixes = row.Required("suffixes");
      for (const std::string& suffix : suffixes.StringSequence()) {
        if (suffix == "a") {
          gpu.has_arch_suffix = true;
        } else if (suffix == "f") {
          gpu.has_family_suffix = true;
        } else {
          suffixes.Error(
              absl::StrCat("a suffix is a or f, got \"", suffix, "\""));
        }
      }
      gpu.family = row.Optional("family").String();
      if (gpu.has_family_suffix == gpu.family.empty()) {
        row.Error("suffix f and family go together");
      }
      gpu.ptx_isa_min = ReadTwoPart(row.Required("ptx_isa_min"));
      gpu.ptx_isa_min_arch =
          ReadOptionalTwoPart(row.Optional("ptx_isa_min_arch"));
      gpu.ptx_isa_min_family =
          ReadOptionalTwoPart(row.Optional("ptx_isa_min_family"));
      gpu.toolkit_first = ReadOptionalTwoPart(row.Optional("toolkit_first"));
      gpu.toolkit_last = ReadOptionalTwoPart(row.Optional("toolkit_last"));
      YamlReader last = row.Optional("driver_last");
      if (last.present()) gpu.driver_last = ReadNumber(last);
      gpu.renamed_to = ReadCapability(row.Optional("renamed_to"));
      Sources(row);
      row.RejectUnknownKeys();
      tables_.gpus_.push_back(std::move(gpu));
    }
    std::sort(
        tables_.gpus_.begin(), tables_.gpus_.end(),
        [](const GpuRow& a, const GpuRow& b) { return a.number < b.number; });
  }

  void Drivers(YamlReader& root) {
    YamlReader zstd = root.Required("compression").Required("zstd");
    tables_.zstd_first_cuda_ = ReadTwoPart(zstd.Required("cuda"));
    tables_.zstd_first_driver_ = ReadDriverVersion(zstd.Required("driver"));
    Sources(zstd);
    zstd.RejectUnknownKeys();
    for (YamlReader row :
         root.Required("minor_version_compatibility").Sequence()) {
      const uint32_t major = ReadNumber(row.Required("cuda_major"));
      tables_.minimum_drivers_[major] =
          ReadDriverVersion(row.Required("driver"));
      Sources(row);
      row.RejectUnknownKeys();
    }
    for (YamlReader row : root.Required("drivers").Sequence()) {
      DriverRow driver;
      YamlReader branch = row.Required("branch");
      driver.branch = ReadNumber(branch);
      driver.cuda = ReadTwoPart(row.Required("cuda"));
      driver.ptx_isa = ReadTwoPart(row.Required("ptx_isa"));
      driver.kind = row.Required("kind").Choice(
          {"lts", "production", "new-feature", "developer", "old"});
      driver.end_of_life = row.Optional("end_of_life").String();
      // Lookups rely on the order: newer branch, newer or equal versions.
      if (!tables_.drivers_.empty()) {
        const DriverRow& last = tables_.drivers_.back();
        if (driver.branch <= last.branch || driver.cuda < last.cuda ||
            driver.ptx_isa < last.ptx_isa) {
          branch.Error("branches must rise, and cuda and ptx_isa with them");
        }
      }
      Sources(row);
      row.RejectUnknownKeys();
      tables_.drivers_.push_back(std::move(driver));
    }
  }

  void Toolkits(YamlReader& root) {
    for (YamlReader row : root.Required("toolkits").Sequence()) {
      ToolkitRow toolkit;
      toolkit.release = ReadNonEmpty(row.Required("release"));
      toolkit.cuda = ReadTwoPart(row.Required("cuda"));
      toolkit.ptx_isa = ReadTwoPart(row.Required("ptx_isa"));
      toolkit.packaged_driver =
          ReadDriverVersion(row.Optional("packaged_driver"));
      toolkit.minimum_driver =
          ReadDriverVersion(row.Required("minimum_driver"));
      YamlReader targets = row.Required("targets");
      for (const absl::string_view word :
           absl::StrSplit(targets.String(), ' ', absl::SkipEmpty())) {
        absl::StatusOr<v1::Target> target = ParseTarget(word);
        if (target.ok()) {
          toolkit.targets.push_back(*std::move(target));
        } else {
          targets.Error(std::string(target.status().message()));
        }
      }
      Sources(row);
      row.RejectUnknownKeys();
      tables_.toolkits_.push_back(std::move(toolkit));
    }
  }

  void Errors(YamlReader& root) {
    std::set<uint32_t> seen;
    for (YamlReader row : root.Required("errors").Sequence()) {
      ErrorRow error;
      YamlReader code = row.Required("code");
      error.code = ReadNumber(code);
      if (!seen.insert(error.code).second) {
        code.Error("this error stands in the table twice");
      }
      error.runtime_name = row.Optional("runtime").String();
      error.driver_name = row.Optional("driver").String();
      error.text = row.Optional("text").String();
      if (error.runtime_name.empty() && error.driver_name.empty()) {
        row.Error("an error has a runtime name or a driver name");
      }
      YamlReader generic = row.Optional("generic");
      error.generic = generic.present() && generic.Bool();
      error.phase = ReadNonEmpty(row.Required("phase"));
      error.process_must_restart = row.Required("process_must_restart").Bool();
      error.cause = ReadNonEmpty(row.Required("cause"));
      error.action = ReadNonEmpty(row.Required("action"));
      error.reason = ReadReason(row.Optional("reason"));
      Sources(row);
      row.RejectUnknownKeys();
      tables_.errors_.push_back(std::move(error));
    }
    Statuses(root);
    std::set<uint32_t> seen_xids;
    for (YamlReader row : root.Required("xids").Sequence()) {
      XidRow xid;
      YamlReader number = row.Required("xid");
      xid.xid = ReadNumber(number);
      if (!seen_xids.insert(xid.xid).second) {
        number.Error("this Xid stands in the table twice");
      }
      xid.origin = ReadWord(row.Required("origin"), kOrigins);
      xid.meaning = ReadNonEmpty(row.Required("meaning"));
      xid.action = ReadNonEmpty(row.Required("action"));
      Sources(row);
      row.RejectUnknownKeys();
      tables_.xids_.push_back(std::move(xid));
    }
  }

  void Statuses(YamlReader& root) {
    std::map<std::string, StatusRow> kinds;
    for (YamlReader row : root.Required("status_kinds").Sequence()) {
      StatusRow kind;
      kind.kind = ReadNonEmpty(row.Required("kind"));
      kind.meaning = ReadNonEmpty(row.Required("meaning"));
      kind.action = ReadNonEmpty(row.Required("action"));
      kind.reason = ReadReason(row.Optional("reason"));
      row.RejectUnknownKeys();
      kinds[kind.kind] = std::move(kind);
    }
    for (YamlReader row : root.Required("statuses").Sequence()) {
      YamlReader kind = row.Required("kind");
      const std::string name = kind.String();
      const auto it = kinds.find(name);
      StatusRow status;
      if (it != kinds.end()) {
        status = it->second;
      } else if (kind.present()) {
        kind.Error(absl::StrCat("\"", name, "\" is not under status_kinds"));
      }
      status.library = ReadNonEmpty(row.Required("library"));
      status.code = ReadNumber(row.Required("code"));
      status.name = ReadNonEmpty(row.Required("name"));
      Sources(row);
      row.RejectUnknownKeys();
      tables_.statuses_.push_back(std::move(status));
    }
  }

  void Messages(YamlReader& root) {
    for (YamlReader row : root.Required("messages").Sequence()) {
      MessageRow message;
      message.tool = ReadNonEmpty(row.Required("tool"));
      YamlReader text = row.Required("text");
      message.text = ReadNonEmpty(text);
      // A short text would be found everywhere.
      if (text.present() && LongestPart(message.text).size() < kShortestText) {
        text.Error("needs a part of at least 8 characters between the stars");
      }
      message.effect = ReadWord(row.Required("effect"), kEffects);
      YamlReader judge = row.Optional("judge");
      if (judge.present()) message.judge = ReadWord(judge, kJudges);
      message.reason = ReadReason(row.Optional("reason"));
      message.error = ReadNumber(row.Optional("error"));
      message.meaning = ReadNonEmpty(row.Required("meaning"));
      message.action = ReadNonEmpty(row.Required("action"));
      Sources(row);
      row.RejectUnknownKeys();
      tables_.messages_.push_back(std::move(message));
    }
    for (YamlReader row : root.Required("kernels").Sequence()) {
      KernelOwnerRow owner;
      owner.starts = ReadNonEmpty(row.Required("starts"));
      owner.owner = ReadNonEmpty(row.Required("owner"));
      owner.vendor = row.Required("vendor").Bool();
      Sources(row);
      row.RejectUnknownKeys();
      tables_.kernel_owners_.push_back(std::move(owner));
    }
  }

  Tables tables_;
  // Place in tables_.sources_ of the keys of the file being read.
  std::map<std::string, size_t> sources_;
  // The file being read.
  std::string file_;
  Sha256Stream digest_;
};

absl::StatusOr<Tables> Tables::Load(const std::string& dir) {
  return TablesLoader().Load(dir);
}

absl::StatusOr<const Tables*> Tables::Default() {
  static const absl::StatusOr<Tables>& loaded = *[] {
    const char* override_dir = std::getenv("TWINPATH_TABLES");
    if (override_dir != nullptr && override_dir[0] != '\0') {
      return new absl::StatusOr<Tables>(Load(override_dir));
    }
    absl::StatusOr<std::string> dir = FindData("compat/tables");
    return new absl::StatusOr<Tables>(
        dir.ok() ? Load(*dir) : absl::StatusOr<Tables>(dir.status()));
  }();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

const GpuRow* Tables::FindGpu(uint32_t number) const {
  for (const GpuRow& row : gpus_) {
    if (row.number == number) return &row;
  }
  return nullptr;
}

const DriverRow* Tables::FindDriver(uint32_t branch) const {
  for (const DriverRow& row : drivers_) {
    if (row.branch == branch) return &row;
  }
  return nullptr;
}

const DriverRow* Tables::FindDriverByCuda(TwoPart cuda) const {
  for (const DriverRow& row : drivers_) {
    if (row.cuda == cuda) return &row;
  }
  return nullptr;
}

const DriverRow* Tables::FirstDriverForPtx(TwoPart isa) const {
  for (const DriverRow& row : drivers_) {
    if (row.ptx_isa >= isa) return &row;
  }
  return nullptr;
}

const DriverRow* Tables::FirstDriverOfMajor(uint32_t cuda_major) const {
  for (const DriverRow& row : drivers_) {
    if (row.cuda.major >= cuda_major) return &row;
  }
  return nullptr;
}

std::string Tables::MinimumDriver(uint32_t cuda_major) const {
  const auto it = minimum_drivers_.find(cuda_major);
  if (it != minimum_drivers_.end()) return it->second;
  const DriverRow* row = FirstDriverOfMajor(cuda_major);
  return row == nullptr ? "" : absl::StrCat(row->branch);
}

const ErrorRow* Tables::FindError(uint32_t code) const {
  for (const ErrorRow& row : errors_) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

const ErrorRow* Tables::FindErrorByName(absl::string_view name) const {
  if (name.empty()) return nullptr;
  for (const ErrorRow& row : errors_) {
    if (row.runtime_name == name || row.driver_name == name) return &row;
  }
  return nullptr;
}

const StatusRow* Tables::FindStatus(absl::string_view library,
                                    uint32_t code) const {
  for (const StatusRow& row : statuses_) {
    if (row.code == code && row.library == library) return &row;
  }
  return nullptr;
}

const StatusRow* Tables::FindStatusByName(absl::string_view name) const {
  for (const StatusRow& row : statuses_) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const XidRow* Tables::FindXid(uint32_t xid) const {
  for (const XidRow& row : xids_) {
    if (row.xid == xid) return &row;
  }
  return nullptr;
}

const KernelOwnerRow* Tables::OwnerOfKernel(absl::string_view mangled) const {
  for (const KernelOwnerRow& row : kernel_owners_) {
    if (absl::StartsWith(mangled, row.starts)) return &row;
  }
  return nullptr;
}

}  // namespace twinpath::compat
