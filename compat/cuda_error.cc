#include "compat/cuda_error.h"

#include "absl/strings/match.h"

namespace twinpath::compat {

ErrorKind KindOfError(uint32_t error) {
  switch (error) {
    case 98:   // invalid device function
    case 200:  // invalid image
    case 209:  // no binary for GPU
    case 218:  // invalid PTX
    case 221:  // no JIT compiler
    case 222:  // PTX of an unsupported toolchain
    case 223:  // JIT compilation disabled
    case 225:  // synchronisation in device code
    case 300:  // chosen image is not what its header says
      return ErrorKind::kImage;
    case 3:    // not initialised
    case 34:   // stub
    case 35:   // driver older than the runtime
    case 36:   // call newer than the driver
    case 49:   // context of another API
    case 100:  // no device
    case 101:  // no such device
    case 102:  // licence
    case 103:  // self test
    case 127:  // runtime cannot start
    case 302:  // driver libraries mixed
    case 303:
    case 803:  // driver halves differ
    case 804:  // forward compatibility refused
    case 805:  // MPS
    case 806:
    case 807:
    case 808:
    case 809:
    case 811:
    case 999:  // unspecified, mostly at start
      return ErrorKind::kSetup;
    case 2:    // out of memory
    case 46:   // device unavailable
    case 214:  // uncorrectable ECC
    case 216:  // exclusive device in use
    case 220:  // uncorrectable NVLink
    case 226:  // contained error
    case 802:  // system not ready
    case 916:  // keys are being renewed
      return ErrorKind::kState;
    case 53:   // launch before this one
    case 700:  // illegal address
    case 702:  // launch timeout
    case 710:  // assert
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failure
    case 721:  // tensor memory leak
      return ErrorKind::kExecution;
    case 202:  // context current already
    case 600:  // not ready
    case 704:  // peer access on already
    case 712:  // registered already
      return ErrorKind::kNone;
    default:
      break;
  }
  // Everything else that CUDA 13.0 defines is about calls.
  constexpr uint32_t kCalls[] = {
      1,   4,   5,   6,   7,   8,   9,   12,  13,  16,  17,  18,  19,  20,
      21,  22,  23,  24,  25,  26,  27,  28,  31,  32,  37,  43,  44,  45,
      52,  65,  66,  67,  68,  69,  201, 205, 206, 207, 208, 210, 211, 212,
      213, 215, 217, 219, 224, 301, 304, 400, 401, 402, 500, 701, 703, 705,
      708, 709, 711, 713, 720, 800, 801, 810, 812, 900, 901, 902, 903, 904,
      905, 906, 907, 908, 909, 910, 911, 912, 913, 914, 915};
  for (const uint32_t call : kCalls) {
    if (call == error) return ErrorKind::kCall;
  }
  return ErrorKind::kUnknown;
}

bool IsDecisiveError(uint32_t error) {
  switch (KindOfError(error)) {
    case ErrorKind::kImage:
      return true;
    case ErrorKind::kSetup:
      // 3 follows from many things, 101 is often the program's own.
      return error != 3 && error != 49 && error != 101 && error != 999;
    default:
      return error == 802;
  }
}

bool IsMildImageError(uint32_t error) { return error == 225 || error == 300; }

bool IsSameError(uint32_t a, uint32_t b) {
  const auto driver_number = [](uint32_t e) { return e == 98 ? 209U : e; };
  return driver_number(a) == driver_number(b);
}

bool IsLaunchCall(absl::string_view call) {
  return absl::StartsWith(call, "cuLaunch") ||
         absl::StartsWith(call, "cuGraphLaunch");
}

bool IsLoadCall(absl::string_view call) {
  return absl::StrContains(call, "ModuleLoad") ||
         absl::StrContains(call, "LibraryLoad") ||
         absl::StartsWith(call, "cuLink");
}

bool IsLookupCall(absl::string_view call) {
  return absl::StartsWith(call, "cuGetProcAddress") ||
         absl::StartsWith(call, "cuGetExportTable") ||
         absl::StartsWith(call, "cuPointerGetAttribute");
}

bool IsHarmlessLine(uint32_t error, absl::string_view call) {
  return error == 0 || error == 201 || KindOfError(error) == ErrorKind::kNone ||
         ((error == 500 || error == 1) && IsLookupCall(call));
}

}  // namespace twinpath::compat
