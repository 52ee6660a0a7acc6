// The decisions about all fatbins and kernels of one file on one GPU, and what
// they come to: how many load, which are gaps, which gaps look like mistakes.

#ifndef TWINPATH_COMPAT_FILE_DECISIONS_H_
#define TWINPATH_COMPAT_FILE_DECISIONS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "compat/host_check.h"
#include "compat/image_rules.h"
#include "compat/prepared.h"
#include "compat/tables.h"

namespace twinpath::compat::internal {

struct Tally {
  uint32_t native = 0;
  uint32_t jit = 0;
  // Registered fatbins that compile, no machine code elsewhere for them.
  uint32_t jit_needed = 0;
  uint32_t unknown = 0;
  uint32_t fails = 0;
  // Do not load, and no other fatbin covers their kernels.
  uint32_t gaps = 0;
  uint32_t holes = 0;
  uint32_t loads() const { return native + jit; }
};

class FileDecisions {
 public:
  FileDecisions(const FileView& file, const HostView& host,
                const Tables& tables);

  // By position in FileView::fatbins.
  const std::vector<Decisions>& fatbins() const { return fatbins_; }
  // By kernel number: the best of the fatbins that hold it.
  const std::vector<Decisions>& kernels() const { return kernels_; }
  const Tally& tally(size_t path) const { return tallies_[path]; }

  // A gap that looks like a mistake: the fatbin is not made for particular
  // GPUs, and most of the file's other fatbins serve this one. Never in
  // NVIDIA's own libraries, which choose kernels by device and are full of such
  // gaps.
  bool IsHole(uint32_t fatbin, size_t path) const;

  // The commonest decision with `outcome`, asked per kernel where kernels were
  // read and per fatbin else; nullptr if there is none.
  const Decision* Commonest(size_t path, v1::Outcome outcome) const;

 private:
  void DecideKernels();
  Decision ForKernel(uint32_t fatbin, size_t path, uint32_t kernel) const;
  bool CoveredElsewhere(uint32_t fatbin, size_t path, v1::Outcome least) const;
  Tally Count(size_t path) const;

  const FileView& file_;
  std::vector<Decisions> fatbins_;
  std::vector<Decisions> kernels_;
  std::array<uint32_t, 3> loading_ = {};
  std::array<Tally, 3> tallies_;
};

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_FILE_DECISIONS_H_
