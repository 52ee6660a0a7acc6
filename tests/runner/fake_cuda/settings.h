// The CUDA driver and the NVML that are none, for tests only: libcuda.so.1 and
// libnvidia-ml.so.1 answer as they are told, so that every branch of the probe
// and of the image loader is reached without a GPU. No product code links or
// finds them by itself.
//
// Built once for each variant, bin/fake_drivers/VARIANT/:
//   full       libcuda, NVML and the PTX compiler's library
//   cuda-only  libcuda alone
//   old        libcuda without what older drivers lack: _v2 UUIDs, enumeration
//              and names of functions, the linker, cuMemGetInfo; and NVML
//   minimal    libcuda with cuInit and cuDriverGetVersion only
//   empty      a libcuda.so.1 without any symbol
//
// A test puts the folder on the child's LD_LIBRARY_PATH. It steers both
// libraries with words, separated by blanks, line ends or ';', that stand in
//   1. the file fake.conf beside the library as it was loaded (make a folder of
//      your own with symbolic links to the libraries: children with a clean
//      environment are steered, too),
//   2. the variables TWINPATH_FAKE_CUDA and TWINPATH_FAKE_NVML.
// Later words win; every `gpu=` adds one.
//
//   gpu=9.0[,OPTION]...   a GPU of this compute capability, in PCI order:
//        name=NVIDIA_H200   '_' is a blank        memory=MIB
//        integrated         memory, ECC and MIG not supported by NVML
//        mig=N              MIG is on, N instances; CUDA lists the first of
//                           them (N = 0: none)
//        no-ecc  processes=N  uuid=HEX32  pci=0000:01:00.0
//        cuda-only, nvml-only   only one of the two lists it
//        lost               NVML gives no handle of it
//        remapped=N remap-pending remap-failed uncorrected=N corrected=N
//        temperature=C throttle=MASK     what NVML says of its state
//      Without any: one "NVIDIA Fake" 12.1, 1 GiB, integrated for CUDA.
//   count=N               CUDA lists N devices like the first
//   cuda=13.0             cuDriverGetVersion
//   driver=580.95.05      nvmlSystemGetDriverVersion
//   ceiling=9.0           newest PTX ISA that compiles
//   nolog                 a failed load leaves no log
//   CALL=ACTION           what a call does, by its exported name (cuInit=803,
//                         nvmlInit_v2=18, cuModuleLoadDataEx=hang); ACTION:
//        N                  returns N     hang    never returns
//        crash              SIGABRT       segv    SIGSEGV
//        exit               _exit(0)      slow:MS  takes so long, then as usual
//   nvmlXid=79:48         Xid events that NVML reports while it is waited for
//   image:SELECTOR=ACTION   what loading or linking an image does; SELECTOR is
//        sm_90a, compute_90, sass, ptx, fatbin or all; ACTION as above, and
//        memory:MIB         takes so much device memory (default 1)
//   Short forms: init=N hang crash exit (of cuInit), attribute=N
//   (cuDeviceGetAttribute of the capability), mig, integrated, mismatch (NVML).
//
// CUDA_VISIBLE_DEVICES with UUIDs, CUDA_FORCE_PTX_JIT, CUDA_DISABLE_PTX_JIT and
// CUDA_CACHE_PATH are heeded as an H200 was measured to (docs/gpu-runs.md).
// Written without the model's code, so that tests compare two opinions.

#ifndef TWINPATH_TESTS_RUNNER_FAKE_CUDA_SETTINGS_H_
#define TWINPATH_TESTS_RUNNER_FAKE_CUDA_SETTINGS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake {

struct Gpu {
  std::string name = "NVIDIA Fake";
  int major = 12;
  int minor = 1;
  uint64_t memory_mib = 1024;
  // As CUDA's attribute says; `nvml_integrated` for NVML's missing answers.
  bool integrated = false;
  bool nvml_integrated = false;
  bool ecc = true;
  // -1: MIG is off.
  int mig = -1;
  unsigned processes = 2;
  std::array<unsigned char, 16> uuid{};
  std::string pci = "0000:01:00.0";
  bool in_cuda = true;
  bool in_nvml = true;
  bool lost = false;
  unsigned remapped = 0;
  bool remap_pending = false;
  bool remap_failed = false;
  uint64_t uncorrected = 0;
  uint64_t corrected = 0;
  unsigned temperature = 40;
  uint64_t throttle = 0;
};

// What CUDA shows as a device: a GPU, or an instance of it (-1: none).
struct Device {
  int gpu = 0;
  int instance = -1;
};

struct Settings {
  std::vector<Gpu> gpus;
  int count = -1;
  int cuda_version = 13000;
  std::string driver = "580.95.05";
  int ceiling = 90;
  bool log = true;
  std::map<std::string, std::string> calls;
  std::map<std::string, std::string> images;

  // CUDA's devices after CUDA_VISIBLE_DEVICES.
  std::vector<Device> devices;
};

// Read once a process.
const Settings& Get();

std::string UuidText(const std::array<unsigned char, 16>& uuid);
// "MIG-..." of an instance.
std::string InstanceUuid(int gpu, int instance);

// Does what the settings say of `call`: returns its error, 0 for none, or never
// returns.
int Act(const char* call);
// The same for an action word.
int Do(const std::string& action);

}  // namespace fake

#endif  // TWINPATH_TESTS_RUNNER_FAKE_CUDA_SETTINGS_H_
