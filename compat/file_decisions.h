// The decisions about all fatbins and kernels of one file on one GPU, and what
// they come to: how many load, which are gaps, which gaps look like mistakes.
// Decided once for each shape of fatbins and each class of kernels
// (prepared.h). Nothing here depends on the order of fatbins or images, but for
// the driver's own ties between images of one fatbin.

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

  // By position in FileView::shapes. Images are those of the first fatbin of
  // the shape.
  const std::vector<Decisions>& shapes() const { return shapes_; }
  // Fatbins of a shape.
  uint32_t FatbinsOf(uint32_t shape) const { return fatbins_of_shape_[shape]; }
  // Of a fatbin, by position in FileView::fatbins.
  const Decisions& fatbin(uint32_t position) const {
    return shapes_[file_.fatbins[position].shape];
  }
  // Of a kernel, by number: the best of the fatbins that hold it.
  const Decisions& kernel(uint32_t number) const {
    return kernel_classes_[file_.kernel_class[number]];
  }
  const Tally& tally(size_t path) const { return tallies_[path]; }

  // A gap that looks like a mistake: the fatbin is not made for particular
  // GPUs, and most of the file's other fatbins serve this one. Never in
  // NVIDIA's own libraries, which choose kernels by device and are full of such
  // gaps. By position in FileView::classes.
  bool IsHole(uint32_t group, size_t path) const { return holes_[path][group]; }

  // Whether relocatable code is what some kernel is taken from with `outcome`:
  // nothing linked that loads has it, so that the driver links at load.
  bool RestsOnRelocatable(size_t path, v1::Outcome outcome) const;

  // The commonest decision with `outcome`, asked per kernel where kernels were
  // read and per fatbin else; nullptr if there is none.
  const Decision* Commonest(size_t path, v1::Outcome outcome) const;

 private:
  Decision ForPlace(const KernelClass::Place& place, size_t path) const;
  void DecideKernels();
  bool CoveredElsewhere(const FatbinClass& group, size_t path,
                        v1::Outcome least) const;
  bool LooksForgotten(const FatbinClass& group, size_t path) const;
  Tally Count(size_t path);

  const FileView& file_;
  std::vector<Decisions> shapes_;
  std::vector<uint32_t> fatbins_of_shape_;
  std::vector<Decisions> kernel_classes_;
  std::array<uint32_t, 3> loading_ = {};
  std::array<std::vector<bool>, 3> holes_;
  std::array<Tally, 3> tallies_;
};

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_FILE_DECISIONS_H_
