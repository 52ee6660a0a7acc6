// Compatibility tables: GPUs, driver branches, toolkits, errors, as data with
// public sources (compat/tables/*.yaml). They are read strictly: an unknown
// key, a wrong type, a row without a source, a source that is not declared are
// errors with file, line and column. The folder named by TWINPATH_TABLES
// replaces the installed one without a rebuild.
//
// What the tables do not know (a newer GPU, driver or PTX ISA) is answered by
// nullptr or nullopt, never guessed. Immutable after loading; thread-safe.

#ifndef TWINPATH_COMPAT_TABLES_H_
#define TWINPATH_COMPAT_TABLES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/common.pb.h"

namespace twinpath::compat {

// A two-part version that compares. CUDA 13.0, PTX ISA 9.0.
struct TwoPart {
  uint32_t major = 0;
  uint32_t minor = 0;
  friend bool operator==(const TwoPart&, const TwoPart&) = default;
  friend auto operator<=>(const TwoPart&, const TwoPart&) = default;
  // "13.0".
  std::string ToString() const;
  static TwoPart From(const v1::Version& version);
  // Whether `text` is "N.N"; nullopt else.
  static std::optional<TwoPart> Parse(absl::string_view text);
};

// A dotted driver version, "580.95.05"; the branch is its first part.
struct DriverVersion {
  std::vector<uint32_t> parts;
  uint32_t branch() const { return parts.empty() ? 0 : parts[0]; }
  friend auto operator<=>(const DriverVersion&, const DriverVersion&) = default;
  static std::optional<DriverVersion> Parse(absl::string_view text);
};

// What a host with the GPU is like, as far as binary rules care.
enum class GpuPlatform { kDiscrete, kIntegratedServer, kTegra };

struct GpuRow {
  // 121 for compute capability 12.1.
  uint32_t number = 0;
  std::string architecture;
  GpuPlatform platform = GpuPlatform::kDiscrete;
  std::vector<std::string> products;
  // Suffixes that exist for it.
  bool has_arch_suffix = false;
  bool has_family_suffix = false;
  // Name of the family its f targets belong to, "10x"; empty without.
  std::string family;
  // Lowest PTX ISA that knows the target, plain and with each suffix.
  TwoPart ptx_isa_min;
  std::optional<TwoPart> ptx_isa_min_arch;
  std::optional<TwoPart> ptx_isa_min_family;
  // First and last toolkit that can target it; no last: still supported.
  std::optional<TwoPart> toolkit_first;
  std::optional<TwoPart> toolkit_last;
  // Last driver branch that drives it; no value: still supported, or tied to
  // another release train (Tegra).
  std::optional<uint32_t> driver_last;
  // The number that replaced this one (101 -> 110); 0: none.
  uint32_t renamed_to = 0;
  bool tegra() const { return platform == GpuPlatform::kTegra; }
};

struct DriverRow {
  // 580.
  uint32_t branch = 0;
  // CUDA version it reports.
  TwoPart cuda;
  // Newest PTX ISA its compiler takes.
  TwoPart ptx_isa;
  // "lts", "production", "new-feature", "old".
  std::string kind;
  // "2028-06"; empty where no page states it.
  std::string end_of_life;
};

struct ToolkitRow {
  // "13.0 U1".
  std::string release;
  TwoPart cuda;
  TwoPart ptx_isa;
  // Driver listed with the release; empty where none is published.
  std::string packaged_driver;
  // Lowest driver by minor-version compatibility (no JIT, no newer API).
  std::string minimum_driver;
  std::vector<v1::Target> targets;
};

struct ErrorRow {
  uint32_t code = 0;
  // "cudaErrorNoKernelImageForDevice"; empty where only the driver has it.
  std::string runtime_name;
  // "CUDA_ERROR_NO_BINARY_FOR_GPU"; empty where the driver has none.
  std::string driver_name;
  // What cudaGetErrorString says; empty where the runtime does not have it.
  std::string text;
  // Whether `text` is too common to count in a line that is not about CUDA.
  bool generic = false;
  // "init", "load", "launch", "run", "call", "context", "any", or two of them.
  std::string phase;
  bool process_must_restart = false;
  std::string cause;
  std::string action;
  // Reason code it leads to; empty: TP311.
  std::string reason;
};

// What a message is worth.
enum class MessageEffect {
  // Says why a run failed.
  kCause,
  // The program or a library could not be loaded.
  kLoader,
  // A compiler refused the code.
  kCompiler,
  // The program's own check refused the GPU.
  kGate,
  // The program goes on without the GPU.
  kCpu,
  // The program uses the GPU: what else it says of going without does not hold.
  kGpu,
  // Memory ran out: nothing about compatibility.
  kMemory,
  // Points somewhere, is no cause by itself.
  kHint,
  // To be ignored.
  kHarmless,
};
absl::string_view EffectName(MessageEffect effect);

// How the numbers in a message decide what it is worth.
enum class MessageJudge {
  kNone,
  // "(8.0) - (12.0)" beside the GPU's capability.
  kRange,
  // "sm_80 sm_90" beside the GPU's target.
  kList,
};

// A message of a compiler, framework, loader or driver, and what it means.
struct MessageRow {
  std::string tool;
  // '*' stands for particulars.
  std::string text;
  MessageEffect effect = MessageEffect::kHint;
  MessageJudge judge = MessageJudge::kNone;
  // Reason code it leads to; empty: none.
  std::string reason;
  // CUDA error it stands for; 0: none.
  uint32_t error = 0;
  std::string meaning;
  std::string action;
};

// A status value of a library: cuBLAS, cuFFT, NVML and others.
struct StatusRow {
  std::string library;
  uint32_t code = 0;
  // "CUBLAS_STATUS_INTERNAL_ERROR".
  std::string name;
  // "internal", "arch", "memory", ...
  std::string kind;
  std::string meaning;
  std::string action;
  // Reason code it leads to; empty: none.
  std::string reason;
};

// Whose fault an Xid is as a rule.
enum class XidOrigin {
  kApplication,
  kHardware,
  kFabric,
  kDriver,
  kEither,
  kInformation,
};
absl::string_view OriginName(XidOrigin origin);

struct XidRow {
  uint32_t xid = 0;
  XidOrigin origin = XidOrigin::kEither;
  std::string meaning;
  std::string action;
};

// Whose kernel it is, by the start of its mangled name.
struct KernelOwnerRow {
  std::string starts;
  // "cuBLAS".
  std::string owner;
  // A library that ships as a binary: the artifact is not at fault for it.
  bool vendor = false;
};

// What a file declares as a source.
struct TableSource {
  std::string file;
  std::string key;
  std::string text;
  // Rows that cite it.
  uint32_t rows = 0;
};

class Tables {
 public:
  // Loads gpus.yaml, drivers.yaml, toolkits.yaml, errors.yaml, messages.yaml
  // from `dir`.
  // INVALID_ARGUMENT lists every mistake of a file.
  static absl::StatusOr<Tables> Load(const std::string& dir);
  // Loads once, from TWINPATH_TABLES or the installed folder. The pointer lives
  // for ever; a failed load stays failed.
  static absl::StatusOr<const Tables*> Default();

  const std::vector<GpuRow>& gpus() const { return gpus_; }
  const std::vector<DriverRow>& drivers() const { return drivers_; }
  const std::vector<ToolkitRow>& toolkits() const { return toolkits_; }
  const std::vector<ErrorRow>& errors() const { return errors_; }
  const std::vector<MessageRow>& messages() const { return messages_; }
  const std::vector<StatusRow>& statuses() const { return statuses_; }
  const std::vector<XidRow>& xids() const { return xids_; }
  const std::vector<KernelOwnerRow>& kernel_owners() const {
    return kernel_owners_;
  }
  const std::vector<TableSource>& sources() const { return sources_; }
  // Places ("gpus.yaml:12:3") of rows none of whose sources has an address:
  // neither a URL nor a document or data of this tree.
  const std::vector<std::string>& rows_without_address() const {
    return rows_without_address_;
  }
  // Lowest driver by CUDA major, as stated.
  const std::map<uint32_t, std::string>& minimum_drivers() const {
    return minimum_drivers_;
  }

  // Row of a compute capability or target number; nullptr: not known.
  const GpuRow* FindGpu(uint32_t number) const;
  // Row of a driver branch; nullptr: not known.
  const DriverRow* FindDriver(uint32_t branch) const;
  // Row of the CUDA version a driver reports; nullptr: not known.
  const DriverRow* FindDriverByCuda(TwoPart cuda) const;
  // Oldest branch whose compiler takes PTX of `isa`; nullptr: none known.
  const DriverRow* FirstDriverForPtx(TwoPart isa) const;
  // Oldest branch of a CUDA major; nullptr: none known.
  const DriverRow* FirstDriverOfMajor(uint32_t cuda_major) const;
  // Lowest driver version, "580" or "450.80.02", on which code of a CUDA major
  // runs without JIT and newer API; empty: not known.
  std::string MinimumDriver(uint32_t cuda_major) const;
  // Row of a CUDA error code; nullptr: not known.
  const ErrorRow* FindError(uint32_t code) const;
  const ErrorRow* FindErrorByName(absl::string_view name) const;
  // Row of a library's status; nullptr: not known. The library's name is in
  // small letters: "cublas".
  const StatusRow* FindStatus(absl::string_view library, uint32_t code) const;
  const StatusRow* FindStatusByName(absl::string_view name) const;
  // Row of an Xid; nullptr: not known.
  const XidRow* FindXid(uint32_t xid) const;
  // Whose kernel it is; nullptr: not known.
  const KernelOwnerRow* OwnerOfKernel(absl::string_view mangled) const;

  // First CUDA driver version that reads zstd images.
  TwoPart zstd_first_cuda() const { return zstd_first_cuda_; }
  // The dotted driver version that goes with it, "550.54.14".
  const std::string& zstd_first_driver() const { return zstd_first_driver_; }

  // Short digest over the files read; stands in Prediction.model_version.
  const std::string& version() const { return version_; }

 private:
  friend class TablesLoader;
  std::vector<GpuRow> gpus_;
  std::vector<DriverRow> drivers_;
  std::vector<ToolkitRow> toolkits_;
  std::vector<ErrorRow> errors_;
  std::vector<MessageRow> messages_;
  std::vector<StatusRow> statuses_;
  std::vector<XidRow> xids_;
  std::vector<KernelOwnerRow> kernel_owners_;
  std::vector<TableSource> sources_;
  std::vector<std::string> rows_without_address_;
  std::map<uint32_t, std::string> minimum_drivers_;
  TwoPart zstd_first_cuda_;
  std::string zstd_first_driver_;
  std::string version_;
};

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_TABLES_H_
