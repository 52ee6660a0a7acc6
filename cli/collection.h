// Many files as one: the files of a folder, the members of a carrier. Keeps one
// short row a file with something to say, and totals. Not thread-safe.

#ifndef TWINPATH_CLI_COLLECTION_H_
#define TWINPATH_CLI_COLLECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/code_view.h"
#include "cli/target_word.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {

struct ViewOptions;

// How much of a file was read, worse last.
enum class Health {
  kWhole,
  // Read whole; something about it is worth knowing (a promise not kept).
  kRemarks,
  // A part could not be read and may hold anything or nothing.
  kUnread,
  // Damaged, or not what it says it is.
  kBroken,
};
Health HealthOf(const v1::FileReport& report);

// One line of the table.
struct FileRow {
  std::string name;
  Health health = Health::kWhole;
  std::string cpu;
  // Targets without "sm_" and "compute_", in order: "75 80 90a*"; the mark is
  // that of `linked_at_load`.
  std::string sass;
  std::string ptx;
  // A target is served by relocatable code alone, in a linked file.
  bool linked_at_load = false;
  uint64_t images = 0;
  uint64_t kernels = 0;
  uint64_t stored_bytes = 0;
  // "TP233 damaged-file", "lacks sm_121".
  std::string note;
};

class Collection {
 public:
  // `targets`: only images of these count.
  explicit Collection(const TargetWords& targets) : targets_(targets) {}

  // Adds a file under `name`. `lacking`: expected targets it does not have.
  void Add(const v1::FileReport& report, absl::string_view name,
           const std::vector<std::string>& lacking = {});

  uint64_t with_code() const { return with_code_; }
  // Rows of files with code or trouble, trouble first, then the most code.
  std::vector<FileRow> SortedRows() const;
  const TargetTotals& totals() const { return totals_; }
  // "14 with device code, 20 ELF files without, 2 carriers, 3 other files".
  std::string Counts() const;

  // Table, totals, problems. At most `max_rows` rows (0: all) and 10 problems.
  std::string Render(const ViewOptions& options, size_t max_rows) const;

 private:
  TargetWords targets_;
  std::vector<FileRow> rows_;
  TargetTotals totals_;
  // With the file's name; the first of very many.
  std::vector<v1::Reason> problems_;
  uint64_t problem_count_ = 0;
  uint64_t with_code_ = 0;
  uint64_t elf_without_code_ = 0;
  uint64_t carriers_ = 0;
  uint64_t others_ = 0;
  bool kernels_read_ = false;
};

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_COLLECTION_H_
