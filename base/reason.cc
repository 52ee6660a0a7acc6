#include "base/reason.h"

#include "absl/strings/match.h"

namespace twinpath {
namespace {

constexpr ReasonInfo kReasons[] = {
    {"TP101", "driver-missing", ReasonGroup::kHost, ReasonSeverity::kError,
     "The loader finds no libcuda.so.1 on the host.",
     "Install the NVIDIA driver, or give the container the GPU."},
    {"TP102", "driver-probe-failed", ReasonGroup::kHost, ReasonSeverity::kError,
     "The driver answered a basic call with an error.",
     "Look at the error named; nvidia-smi and the kernel log of the host tell "
     "more."},
    {"TP103", "probe-hung", ReasonGroup::kHost, ReasonSeverity::kError,
     "The driver did not answer before the deadline.",
     "Look for Xid lines in the kernel log; the host may need a GPU reset or a "
     "reboot."},
    {"TP104", "driver-halves-differ", ReasonGroup::kHost,
     ReasonSeverity::kError,
     "Kernel module and libcuda are of different versions (CUDA error 803).",
     "Finish the driver upgrade: reload the module or reboot."},
    {"TP105", "stub-libcuda", ReasonGroup::kHost, ReasonSeverity::kError,
     "The libcuda found is a toolkit's link stub (CUDA error 34).",
     "Take the stubs folder out of LD_LIBRARY_PATH and rpath."},
    {"TP106", "no-gpu", ReasonGroup::kHost, ReasonSeverity::kError,
     "The driver lists no GPU.",
     "Check the device nodes, the container's GPU request and "
     "CUDA_VISIBLE_DEVICES."},
    {"TP107", "capability-query-failed", ReasonGroup::kHost,
     ReasonSeverity::kError,
     "The compute capability could not be read from the device.",
     "Settle the driver or device fault first; no other number is used in its "
     "place."},
    {"TP108", "jit-library-missing", ReasonGroup::kHost, ReasonSeverity::kError,
     "libnvidia-ptxjitcompiler.so.1 cannot be found, so no PTX can be compiled "
     "(CUDA error 221).",
     "Install or mount the driver's JIT compiler library."},
    {"TP109", "jit-switch-set-globally", ReasonGroup::kHost,
     ReasonSeverity::kWarning,
     "A switch that changes JIT or cache behaviour is set where programs "
     "inherit it.",
     "Unset it at the place named."},
    {"TP110", "toolkit-lacks-target", ReasonGroup::kHost,
     ReasonSeverity::kWarning,
     "The toolkit's list of targets lacks this host's GPU.",
     "Use a toolkit whose list has the target; never an older number."},
    {"TP111", "gpu-busy", ReasonGroup::kHost, ReasonSeverity::kWarning,
     "A compute process was on the GPU.", "Wait, or change the host's policy."},
    {"TP112", "mig-without-instance", ReasonGroup::kHost,
     ReasonSeverity::kError, "MIG is enabled and no compute instance exists.",
     "Create an instance or switch MIG off."},
    {"TP113", "device-node-missing", ReasonGroup::kHost, ReasonSeverity::kError,
     "A device node the driver needs is missing.",
     "Run nvidia-modprobe or restart the persistence daemon."},
    {"TP114", "sandbox-unavailable", ReasonGroup::kHost, ReasonSeverity::kError,
     "The run could not be confined on this host, so it was refused.",
     "Install bubblewrap and allow it user namespaces, or use the systemd run "
     "unit."},
    {"TP115", "artifact-not-staged", ReasonGroup::kHost, ReasonSeverity::kError,
     "The artifact's files could not be put on the host.",
     "Look at the detail: room on disk, or the connection to the coordinator."},
    {"TP116", "clock-skew", ReasonGroup::kHost, ReasonSeverity::kWarning,
     "The host's clock differs from the store's.",
     "Set the host's clock; staleness is judged by the store's clock "
     "meanwhile."},
    {"TP117", "gpu-dropped-by-driver", ReasonGroup::kHost,
     ReasonSeverity::kError, "The driver branch no longer supports this GPU.",
     "Stay on the last branch that does."},
    {"TP118", "driver-unknown", ReasonGroup::kHost, ReasonSeverity::kWarning,
     "The tables do not know this driver version.",
     "Let the probe measure it, or update the tables."},
    {"TP119", "host-architecture-unknown", ReasonGroup::kHost,
     ReasonSeverity::kWarning, "The host's CPU architecture is not known.",
     "Let the agent collect facts again."},
    {"TP120", "forward-compat-driver", ReasonGroup::kHost,
     ReasonSeverity::kNote,
     "The libcuda found is a forward-compatibility build: it, not the kernel "
     "module, sets the CUDA version and the PTX ceiling.",
     "Nothing to do; keep the package as long as the driver is older than it."},
    {"TP121", "forward-compat-refused", ReasonGroup::kHost,
     ReasonSeverity::kError,
     "The forward-compatibility libcuda found does not work with this kernel "
     "module (CUDA error 803) or this GPU (804).",
     "Take its folder out of LD_LIBRARY_PATH and ld.so.conf, or remove the "
     "cuda-compat package."},
    {"TP122", "environment-decides-path", ReasonGroup::kHost,
     ReasonSeverity::kWarning,
     "A variable that programs inherit on this host decides how they run.",
     "Unset it at the place named."},
    {"TP123", "gpus-hidden", ReasonGroup::kHost, ReasonSeverity::kWarning,
     "CUDA_VISIBLE_DEVICES, set where programs inherit it, hides GPUs or names "
     "them by an index that is not stable.",
     "Unset it at the place named, or name GPUs by UUID."},
    {"TP124", "forward-compat-undecided", ReasonGroup::kHost,
     ReasonSeverity::kWarning,
     "Nothing published says whether the forward-compatibility libcuda found "
     "works here.",
     "Run twinpath doctor on the host: the probe initialises the driver."},
    {"TP125", "driver-of-windows", ReasonGroup::kHost, ReasonSeverity::kNote,
     "The host is WSL: the driver is the one of Windows, and libcuda only "
     "leads to it.",
     "Install or update the driver in Windows; none belongs into WSL."},
    {"TP126", "library-injected", ReasonGroup::kHost, ReasonSeverity::kWarning,
     "A variable that programs inherit puts a library into each of them.",
     "Unset it at the place named, unless it is a profiler that is meant to "
     "be there."},
    {"TP127", "library-shadowed", ReasonGroup::kHost, ReasonSeverity::kWarning,
     "LD_LIBRARY_PATH, set where programs inherit it, leads to another copy of "
     "a library than the one the artifact brings.",
     "Unset it for this program, or link with DT_RPATH "
     "(-Wl,--disable-new-dtags)."},
    {"TP130", "release-refused", ReasonGroup::kHost, ReasonSeverity::kError,
     "The host runs only what a key it trusts has signed, and this is not, or "
     "not for this host or this time.",
     "Sign the release (twinpath release sign) with a key of "
     "/etc/twinpath/trusted-keys.d, and start the sweep with --signature."},
    {"TP131", "toolkit-missing", ReasonGroup::kHost, ReasonSeverity::kWarning,
     "The host has no CUDA toolkit with nvcc, so there is none to check.",
     "Install one, or name its folder: twinpath check --toolchain --toolkit "
     "DIR."},
    {"TP132", "toolkit-unusable", ReasonGroup::kHost, ReasonSeverity::kError,
     "A toolkit's compiler does not run, does not answer, or does not build "
     "the check program.",
     "Look at the command and its output in the step named; often the host "
     "compiler is missing or newer than the toolkit allows."},
    {"TP133", "toolkit-builds-something-else", ReasonGroup::kHost,
     ReasonSeverity::kError,
     "What a toolkit built does not hold the machine code or the PTX that was "
     "asked for.",
     "Look for a wrapper, a profile or variables that change nvcc's options; "
     "do not go by its exit code."},
    {"TP134", "containers-unavailable", ReasonGroup::kHost,
     ReasonSeverity::kError,
     "Podman or its runtime is missing on this host or does not work, so the "
     "entry of an oci_image was refused.",
     "Install podman and runc (or crun), and start twinpath-oci.socket."},
    {"TP135", "gpu-not-described-for-containers", ReasonGroup::kHost,
     ReasonSeverity::kError,
     "No CDI specification of this host names the GPU, so that no container "
     "gets it the way the product's containers do.",
     "Run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml "
     "--device-name-strategy=uuid as root."},
    {"TP136", "image-not-here", ReasonGroup::kHost, ReasonSeverity::kError,
     "The oci_image that the entry names is neither in the artifact nor in the "
     "host's storage. It is never fetched from a registry.",
     "Put the image into the artifact (podman save --format oci-archive), or "
     "load it on the host, and name the digest of its manifest."},
    {"TP137", "reservation-failed", ReasonGroup::kHost, ReasonSeverity::kError,
     "The host's own command for reserving or releasing a GPU failed.",
     "Run the command of gpu_reserve or gpu_release in agent.yaml by hand, as "
     "the agent's user."},
    {"TP138", "host-paused", ReasonGroup::kHost, ReasonSeverity::kWarning,
     "The host's owner has paused runs on it.",
     "twinpath-agent resume on the host, or wait until the pause ends."},
    {"TP139", "mixed-gpus", ReasonGroup::kHost, ReasonSeverity::kNote,
     "The host has GPUs of different models; what is true of one says nothing "
     "about the other.",
     "Name GPUs by UUID; run an entry on each model (--all-gpus)."},
    {"TP200", "native-image", ReasonGroup::kPrediction, ReasonSeverity::kNote,
     "Machine code for this GPU is present.", "Nothing to do."},
    {"TP201", "no-image", ReasonGroup::kPrediction, ReasonSeverity::kError,
     "Nothing in the file runs on this GPU (CUDA error 209).",
     "Build for the target named."},
    {"TP202", "no-ptx", ReasonGroup::kPrediction, ReasonSeverity::kError,
     "Forced JIT finds no PTX for this GPU (CUDA error 209).",
     "Add PTX: code=compute_NN."},
    {"TP203", "ptx-target-too-new", ReasonGroup::kPrediction,
     ReasonSeverity::kError, "The PTX is for a newer GPU.",
     "Build PTX for a target not above this GPU."},
    {"TP204", "ptx-newer-than-driver", ReasonGroup::kPrediction,
     ReasonSeverity::kError,
     "The PTX's ISA version is above the driver's ceiling (CUDA error 222).",
     "Add machine code for the GPU, or raise the driver."},
    {"TP205", "jit-disabled", ReasonGroup::kPrediction, ReasonSeverity::kError,
     "Only PTX fits this GPU, and the native path forbids compiling it (CUDA "
     "error 223).",
     "Add machine code for the GPU: code=sm_NN."},
    {"TP206", "jit-only", ReasonGroup::kPrediction, ReasonSeverity::kWarning,
     "Runs on this GPU only by compiling PTX in the driver.",
     "Add machine code for the GPU if native code is promised."},
    {"TP207", "runtime-newer-than-driver", ReasonGroup::kPrediction,
     ReasonSeverity::kError,
     "The CUDA runtime's major version is above the driver's (CUDA error 35).",
     "Raise the driver, or build with an older toolkit."},
    {"TP208", "wrong-cpu-architecture", ReasonGroup::kPrediction,
     ReasonSeverity::kError, "The host code is for another CPU architecture.",
     "Build the file for the host's CPU."},
    {"TP209", "platform-mismatch", ReasonGroup::kPrediction,
     ReasonSeverity::kError,
     "A server Arm build on a Tegra host, or the reverse.",
     "Build for the host's platform."},
    {"TP210", "tegra-unpromised", ReasonGroup::kPrediction,
     ReasonSeverity::kWarning,
     "Nobody promises that code for this target runs on this Tegra GPU.",
     "Run it there, or build for the exact target."},
    {"TP211", "compression-needs-newer-driver", ReasonGroup::kPrediction,
     ReasonSeverity::kError,
     "The image is compressed in a way this driver cannot read (CUDA error "
     "200).",
     "Build with --compress-mode=speed or none, or raise the driver."},
    {"TP212", "lto-ir-only", ReasonGroup::kArtifact, ReasonSeverity::kError,
     "The file holds only LTO-IR for this GPU, which the driver does not load.",
     "Link it with nvJitLink or nvcc -dlto."},
    {"TP213", "unknown-image-kind", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "An image is of a kind this version does not know or cannot read.",
     "Run it, or update Twinpath."},
    {"TP214", "run-time-compiler", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "The file brings or needs a run-time compiler; what it makes cannot be "
     "seen in the file.",
     "Run the entry on the host."},
    {"TP215", "packed-file", ReasonGroup::kArtifact, ReasonSeverity::kWarning,
     "The file is packed; its content is unknown.", "Unpack it or run it."},
    {"TP216", "relocatable-ptx", ReasonGroup::kPrediction,
     ReasonSeverity::kNote, "PTX that the driver links and compiles at load.",
     "Nothing to do where JIT is accepted."},
    {"TP217", "relocatable-sass", ReasonGroup::kPrediction,
     ReasonSeverity::kNote, "Machine code that the driver links at load.",
     "Nothing to do."},
    {"TP218", "ptx-invalid", ReasonGroup::kArtifact, ReasonSeverity::kError,
     "The driver cannot compile the PTX (CUDA error 218).",
     "Look at the driver's JIT log."},
    {"TP219", "suffix-excludes-gpu", ReasonGroup::kPrediction,
     ReasonSeverity::kError,
     "The image is architecture- or family-specific and this GPU is outside.",
     "Build for this GPU's own target or for a base target."},
    {"TP220", "gaps", ReasonGroup::kPrediction, ReasonSeverity::kNote,
     "Some fatbins hold nothing for this GPU; others in the file cover it.",
     "Nothing to do; name kernels in the release to be sure."},
    {"TP221", "hole", ReasonGroup::kArtifact, ReasonSeverity::kWarning,
     "A fatbin lacks a target that the file's other fatbins have.",
     "Build all objects of the file with the same targets."},
    {"TP222", "library-cannot-follow-jit", ReasonGroup::kPrediction,
     ReasonSeverity::kNote,
     "A vendor library holds no PTX for this GPU, so a forced JIT run fails "
     "inside it.",
     "Judge the artifact's own PTX by image loading."},
    {"TP223", "no-device-code", ReasonGroup::kArtifact, ReasonSeverity::kNote,
     "The file holds no device code.", "Nothing to do, unless it should."},
    {"TP224", "target-unknown", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning, "The tables do not know this target.",
     "Update the tables, or run it."},
    {"TP225", "unset-architecture", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "The file looks as if no GPU target was given at build time.",
     "State the targets in the build."},
    {"TP226", "no-forward-cover", ReasonGroup::kArtifact, ReasonSeverity::kNote,
     "No PTX: the first GPU of a new major version will fail.",
     "Add PTX of the newest target if future GPUs matter."},
    {"TP227", "kernel-without-image", ReasonGroup::kPrediction,
     ReasonSeverity::kError,
     "A kernel that is needed has no image for this GPU.",
     "Build the object that holds it for the target."},
    {"TP228", "left-over-images", ReasonGroup::kArtifact, ReasonSeverity::kNote,
     "Relocatable images that nothing registers; they never run.",
     "Leave them out to save space."},
    {"TP229", "damaged-fatbin", ReasonGroup::kArtifact, ReasonSeverity::kError,
     "A fatbin's header is right and its entries are broken.",
     "Build or copy the file again."},
    {"TP230", "wrapper-points-at-nothing", ReasonGroup::kArtifact,
     ReasonSeverity::kError,
     "The host code registers a fatbin where there is none (CUDA error 200).",
     "Undo the tool that moved or removed the section."},
    {"TP231", "library-missing", ReasonGroup::kArtifact, ReasonSeverity::kError,
     "A shared library the file needs cannot be found.",
     "Install it or ship it with the artifact."},
    {"TP232", "inspection-incomplete", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning, "Part of the file could not be read.",
     "Inspect what is named by itself: unpack it, or run as a user who may "
     "read it."},
    {"TP233", "damaged-file", ReasonGroup::kArtifact, ReasonSeverity::kError,
     "The file ends too early or its tables are broken.",
     "Build or copy the file again."},
    {"TP234", "virtual-architecture-clamped", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "Device link gave the image a lower virtual architecture than its target.",
     "Build all linked objects for the same virtual architecture."},
    {"TP235", "ptx-image", ReasonGroup::kPrediction, ReasonSeverity::kNote,
     "PTX that this driver compiles for this GPU is present.",
     "Nothing to do."},
    {"TP236", "package-cpu-mismatch", ReasonGroup::kArtifact,
     ReasonSeverity::kError,
     "A package promises one CPU architecture and holds host code for another.",
     "Build or fetch the package for the hosts' CPU."},
    {"TP237", "package-cuda-mismatch", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "A package promises one CUDA major release and its files need another.",
     "Fetch the package of the CUDA release that the hosts have."},
    {"TP238", "expected-target-missing", ReasonGroup::kArtifact,
     ReasonSeverity::kError,
     "A target that was expected or promised has no image.",
     "Build with that target, or expect what is there."},
    {"TP239", "two-cuda-majors", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "Files that are shipped together need two CUDA major releases.",
     "Build all of them with one, or ship both runtimes."},
    {"TP240", "unnamed-kernels", ReasonGroup::kArtifact, ReasonSeverity::kNote,
     "Kernels with an image that the file's host code never names.",
     "Nothing to do, unless they should be launched."},
    {"TP241", "package-without-device-code", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "A package that promises CUDA holds no device code.",
     "See whether the CPU-only build was fetched."},
    {"TP242", "bundled-driver-library", ReasonGroup::kArtifact,
     ReasonSeverity::kError,
     "A package ships libcuda, which belongs to the host's driver.",
     "Leave it out; exclude libcuda.so.1 when the package is repaired."},
    {"TP244", "reader-less-confined", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "Files were read by a process without one of its layers of confinement.",
     "Read files you do not trust on a kernel with Landlock and seccomp."},
    {"TP246", "library-of-caller", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "Neither the artifact nor the host has a library that this one needs, so "
     "it loads only into a process that brings it.",
     "Install the library, ship it, or make sure the caller loads it first."},
    {"TP247", "two-cuda-majors-loaded", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "One process loads the same CUDA library in two major versions.",
     "Build all parts with one CUDA major release."},
    {"TP248", "library-off-the-search-path", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "A needed library lies in the artifact where no search path of the loader "
     "leads to.",
     "Link with an RPATH such as $ORIGIN/../lib, or start the program with "
     "LD_LIBRARY_PATH."},
    {"TP249", "platform-build-in-doubt", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "The file looks built for the other Arm platform (server or Tegra); "
     "whether it runs here is not promised.",
     "Take the build for this platform, or run twinpath check on the host."},
    {"TP250", "driver-capped", ReasonGroup::kArtifact, ReasonSeverity::kNote,
     "The last driver that drives these GPUs is older than what the artifact "
     "needs.",
     "Ship another build to these hosts, made with an older toolkit."},
    {"TP251", "driver-before-gpu", ReasonGroup::kArtifact,
     ReasonSeverity::kError,
     "The driver assumed is older than the first that drives this GPU.",
     "Assume a newer driver."},
    {"TP255", "tile-ir", ReasonGroup::kArtifact, ReasonSeverity::kError,
     "The only code for this GPU is Tile IR, which the driver compiles with "
     "libnvidia-tileiras, of CUDA 13.1 and later.",
     "Update the driver and install its tileiras library, or add machine "
     "code."},
    {"TP256", "payload-for-other-gpu", ReasonGroup::kArtifact,
     ReasonSeverity::kError,
     "The driver takes this image by its header, and its machine code is for "
     "another GPU (CUDA error 300).",
     "Build the file again; do not edit targets in fatbins."},
    {"TP257", "obfuscated-ptx", ReasonGroup::kArtifact, ReasonSeverity::kError,
     "The PTX is obfuscated, which drivers up to CUDA 13.2 do not read (CUDA "
     "error 218).",
     "Add machine code for the GPU, or plain PTX."},
    {"TP258", "device-runtime-without-ptx", ReasonGroup::kArtifact,
     ReasonSeverity::kError,
     "Kernels that launch kernels are linked with the device runtime, which "
     "brings no PTX for this GPU (CUDA error 300).",
     "Judge this program natively, with machine code for the GPU."},
    {"TP259", "machine-code-newer-than-driver", ReasonGroup::kArtifact,
     ReasonSeverity::kWarning,
     "Machine code made by a newer CUDA major than the driver's: nobody "
     "promises "
     "that it loads, and drivers were seen to refuse it (CUDA error 200).",
     "Raise the driver to that major, or use a build of the driver's major."},
    {"TP300", "ran-native", ReasonGroup::kRun, ReasonSeverity::kNote,
     "The entry ran from machine code.", "Nothing to do."},
    {"TP301", "ran-jit", ReasonGroup::kRun, ReasonSeverity::kNote,
     "The entry ran from PTX compiled by the driver.", "Nothing to do."},
    {"TP302", "exit-code", ReasonGroup::kRun, ReasonSeverity::kError,
     "The entry ended with another exit code than expected.",
     "Look at its output and the driver log."},
    {"TP303", "output-unexpected", ReasonGroup::kRun, ReasonSeverity::kError,
     "The entry's output is not what the release expects.",
     "Compare output and expectation."},
    {"TP304", "timed-out", ReasonGroup::kRun, ReasonSeverity::kError,
     "The entry did not end within its time limit.",
     "Raise the limit, or look for a hang."},
    {"TP305", "signaled", ReasonGroup::kRun, ReasonSeverity::kError,
     "A signal ended the entry.", "Look for a crash or a memory limit."},
    {"TP306", "not-started", ReasonGroup::kRun, ReasonSeverity::kError,
     "The entry could not be started.", "Look at the detail."},
    {"TP307", "interrupted", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "The host lost track of the run (restart, power); it counts for nothing.",
     "It is repeated by itself."},
    {"TP308", "success-that-is-none", ReasonGroup::kRun, ReasonSeverity::kError,
     "The entry reports success although a launch failed or nothing was "
     "launched.",
     "Check every CUDA call and launch in the entry."},
    {"TP309", "ptx-path-not-exercised", ReasonGroup::kRun,
     ReasonSeverity::kError,
     "The forced JIT run ended well, but nothing was seen to be compiled.",
     "Make the entry launch kernels that come from PTX."},
    {"TP310", "still-compiling", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "The time limit came while the driver was still compiling.",
     "Raise jit_timeout."},
    {"TP311", "cuda-error", ReasonGroup::kRun, ReasonSeverity::kError,
     "The run met a CUDA error.", "Look the error up: twinpath explain CODE."},
    {"TP312", "loader-error", ReasonGroup::kRun, ReasonSeverity::kError,
     "The dynamic loader could not start the program.",
     "Install or ship the library named."},
    {"TP313", "out-of-memory", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "The device or the host ran out of memory; this says nothing about "
     "compatibility.",
     "Free memory and run again."},
    {"TP314", "silent-jit", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "The plain run compiled PTX although machine code was predicted or "
     "promised.",
     "Add machine code for the GPU."},
    {"TP315", "conditions-changed", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "The host's conditions changed during the run.", "Run again."},
    {"TP316", "path-skipped", ReasonGroup::kRun, ReasonSeverity::kNote,
     "The path was not run.", "See the detail."},
    {"TP317", "hung", ReasonGroup::kRun, ReasonSeverity::kError,
     "The process survived SIGKILL in the driver and was given up.",
     "The host may need a GPU reset or a reboot."},
    {"TP318", "no-gpu-on-host", ReasonGroup::kRun, ReasonSeverity::kError,
     "The entry was not run because the host has no usable GPU.",
     "See the host's findings."},
    {"TP319", "cache-not-used", ReasonGroup::kRun, ReasonSeverity::kNote,
     "Nothing was compiled: the plain run left no file in its cache folder.",
     "Nothing to do."},
    {"TP320", "ran-on-cpu", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "The program says that it goes on without the GPU.",
     "Look at what it could not load: libraries, driver, or its own check."},
    {"TP321", "application-gate", ReasonGroup::kRun, ReasonSeverity::kError,
     "The program's own check refused this GPU; no CUDA call failed.",
     "See with twinpath predict whether the code itself would run, and ask for "
     "a build or option that admits the GPU."},
    {"TP322", "device-fault", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "Device, links or driver report a fault; this says nothing about "
     "compatibility.",
     "Look at the kernel log, reset the GPU, and run again."},
    {"TP323", "cpu-instruction", ReasonGroup::kRun, ReasonSeverity::kError,
     "The host code uses an instruction that this CPU lacks (SIGILL).",
     "Build without -march=native, for the oldest CPU to be served."},
    {"TP324", "run-time-compiler-lacks-target", ReasonGroup::kRun,
     ReasonSeverity::kError,
     "A compiler that the program calls at run time does not know this GPU.",
     "Use a compiler whose list has the target: twinpath tables show "
     "toolkits."},
    {"TP325", "container-requirement", ReasonGroup::kRun,
     ReasonSeverity::kError,
     "The container was not started because its image demands a newer driver.",
     "Raise the driver, or use an image with a lower requirement."},
    {"TP326", "library-status", ReasonGroup::kRun, ReasonSeverity::kError,
     "A CUDA library returned an error of its own.",
     "Look at the driver log (CUDA_LOG_FILE) for the CUDA error behind it."},
    {"TP327", "device-not-watched", ReasonGroup::kRun, ReasonSeverity::kNote,
     "Whether the driver reported a fault of the GPU during the run could not "
     "be seen.",
     "twinpath doctor says whether the probe reaches NVML; the kernel log of "
     "the host has the Xid lines."},
    {"TP328", "clocks-lowered", ReasonGroup::kRun, ReasonSeverity::kNote,
     "The GPU's clocks were lowered by heat, power or a fault around the run.",
     "Times measured there are not comparable; look at cooling and power."},
    {"TP330", "trace-missing", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "A trace that the entry needs was not delivered, did not start or is not "
     "complete.",
     "Look at the detail: CUPTI (a CUDA toolkit or the package nvidia-cuda-"
     "cupti) must be on the host and of the driver's CUDA major version."},
    {"TP331", "traced-run-differs", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "The repeat with tracing ended in another way than the run it repeats; "
     "its trace proves nothing.",
     "Look at its output: a program that uses CUPTI or LD_AUDIT itself cannot "
     "be traced (trace: off)."},
    {"TP332", "kernel-not-launched", ReasonGroup::kRun, ReasonSeverity::kError,
     "A kernel that the release says must be launched was not.",
     "Make the entry launch it, or correct must_launch."},
    {"TP333", "kernel-owner", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "The file that owns the kernel that failed, as the traced run shows it.",
     "Where it is a library of others, its code lacks this GPU or path, not "
     "the artifact's own."},
    {"TP334", "compiled-in-part", ReasonGroup::kRun, ReasonSeverity::kNote,
     "Of the kernels launched with compilation forced, some came from machine "
     "code that was given to the driver as it is; the switch does not reach "
     "it.",
     "For these kernels the ptx-jit path is not proven."},
    {"TP335", "image-refused", ReasonGroup::kRun, ReasonSeverity::kError,
     "The driver refused a device-code image that is for this GPU.",
     "Look at the error and the driver's log of the image: twinpath check "
     "--images FILE."},
    {"TP336", "image-not-decided", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "For some images the driver gave no answer: its process died, was ended "
     "at the limit, or there was no time or memory left.",
     "Run again with more time, or look at the images named: twinpath check "
     "--images FILE."},
    {"TP337", "link-input", ReasonGroup::kRun, ReasonSeverity::kNote,
     "Relocatable images are pieces that other pieces complete; alone they do "
     "not load.",
     "Nothing to do: what the program links from them at run time is seen in "
     "its own runs."},
    {"TP338", "output-file-missing", ReasonGroup::kRun, ReasonSeverity::kError,
     "A file that the entry names was not left in its working folder.",
     "Write it below the working folder, as a file and not as a link; a name "
     "with \"..\" or an absolute one is never looked for."},
    {"TP339", "image-environment", ReasonGroup::kRun, ReasonSeverity::kWarning,
     "A variable of the oci_image decides how programs run in it: it steers "
     "the JIT compiler or hides the GPU from its containers.",
     "Take the variable out of the image, or set it where the container is "
     "started."},
    {"TP401", "prediction-contradicted", ReasonGroup::kFleet,
     ReasonSeverity::kError, "The driver did something else than predicted.",
     "This is a defect of the model: report it with the evidence."},
    {"TP402", "paths-differ", ReasonGroup::kFleet, ReasonSeverity::kError,
     "Native and forced JIT give different results on one host.",
     "Look for code guarded by __CUDA_ARCH__ or for PTX of another version."},
    {"TP403", "class-differs", ReasonGroup::kFleet, ReasonSeverity::kError,
     "Two hosts with equal conditions give different results.",
     "Look for what the conditions do not list: hardware faults first."},
    {"TP405", "digest-differs", ReasonGroup::kFleet, ReasonSeverity::kError,
     "A file on the host is not the file that was dispatched.",
     "Treat the host's disk and cache as suspect."},
    {"TP407", "declared-target-missing", ReasonGroup::kFleet,
     ReasonSeverity::kError,
     "The release declares a target that the artifact lacks.",
     "Build for the target, or correct the release."},
    {"TP408", "expected-kernel-missing", ReasonGroup::kFleet,
     ReasonSeverity::kError,
     "The release names a kernel that the artifact lacks, or lacks for a "
     "target.",
     "Build it in, or correct the release."},
    {"TP409", "ptx-isa-outside-range", ReasonGroup::kFleet,
     ReasonSeverity::kError,
     "The artifact's PTX ISA is outside the range the release declares.",
     "Build with the toolkit the release names."},
    {"TP410", "unstable-result", ReasonGroup::kFleet, ReasonSeverity::kError,
     "Two complete results of one cell differ.",
     "Look for a race in the entry or a hardware fault."},
    {"TP411", "missing-host", ReasonGroup::kFleet, ReasonSeverity::kWarning,
     "A selected host gave no complete answer.",
     "Bring the host back and sweep again."},
    {"TP412", "no-hosts", ReasonGroup::kFleet, ReasonSeverity::kWarning,
     "No host was selected.", "Correct the selector."},
    {"TP413", "deadline", ReasonGroup::kFleet, ReasonSeverity::kWarning,
     "The deadline came before every cell was done.",
     "Raise the deadline, or see the missing hosts."},
    {"TP414", "simulated", ReasonGroup::kFleet, ReasonSeverity::kWarning,
     "The answer comes from a model, not from a machine; it can never pass.",
     "Run on the real host."},
    {"TP415", "duplicate-identity", ReasonGroup::kFleet, ReasonSeverity::kError,
     "Two machines use one identity.", "Enrol one of them anew."},
    {"TP416", "cancelled", ReasonGroup::kFleet, ReasonSeverity::kWarning,
     "The sweep was cancelled.", "Start it again."},
    {"TP417", "gave-up", ReasonGroup::kFleet, ReasonSeverity::kWarning,
     "The cell was started as often as allowed and never gave a complete "
     "result.",
     "Look at the host's log."},
    {"TP418", "not-proven", ReasonGroup::kFleet, ReasonSeverity::kWarning,
     "A required path has no positive evidence.", "See the path's own reason."},
    {"TP420", "all-proven", ReasonGroup::kFleet, ReasonSeverity::kNote,
     "Every required path has positive evidence.", "Nothing to do."},
    {"TP421", "predicted-failure", ReasonGroup::kFleet, ReasonSeverity::kError,
     "The model predicts a failure, and nothing observed contradicts it.",
     "See the prediction's reason."},
    {"TP430", "image-loads-contradicted", ReasonGroup::kFleet,
     ReasonSeverity::kError,
     "The driver did with images something else than predicted.",
     "This is a defect of the model, or of the driver: report it with the "
     "evidence."},
    {"TP431", "witness-differs", ReasonGroup::kFleet, ReasonSeverity::kWarning,
     "cuobjdump lists other images in a file than were read here, and no named "
     "rule explains the difference.",
     "Report it with the file; meanwhile trust neither reading of it."},
    {"TP432", "reference-differs", ReasonGroup::kFleet, ReasonSeverity::kError,
     "A result differs from the reference that the release holds.",
     "Look for code that depends on the GPU; record the reference again if the "
     "program was changed on purpose."},
    {"TP433", "results-differ", ReasonGroup::kFleet, ReasonSeverity::kWarning,
     "Hosts of different classes, or different GPUs of one host, give "
     "different results.",
     "Compare numbers within a tolerance, or record a reference and state it."},
    {"TP434", "results-not-compared", ReasonGroup::kFleet,
     ReasonSeverity::kWarning,
     "What was recorded of results does not suffice to compare them.",
     "State how they are compared (compare: in the sweep file), or let the "
     "program write less."},
    {"TP501", "conditions-stale", ReasonGroup::kEvidence,
     ReasonSeverity::kWarning,
     "The host's conditions are not those the verdict rests on.",
     "Sweep again."},
    {"TP502", "release-stale", ReasonGroup::kEvidence, ReasonSeverity::kWarning,
     "Artifact, release or policy are not those the verdict rests on.",
     "Sweep again."},
};

}  // namespace

absl::Span<const ReasonInfo> AllReasons() { return kReasons; }

const ReasonInfo* FindReason(absl::string_view code_or_name) {
  for (const ReasonInfo& row : kReasons) {
    if (absl::EqualsIgnoreCase(row.code, code_or_name) ||
        absl::EqualsIgnoreCase(row.name, code_or_name)) {
      return &row;
    }
  }
  return nullptr;
}

absl::string_view SeverityName(ReasonSeverity severity) {
  switch (severity) {
    case ReasonSeverity::kNote:
      return "note";
    case ReasonSeverity::kWarning:
      return "warning";
    case ReasonSeverity::kError:
      return "error";
  }
  return "error";
}

absl::string_view GroupName(ReasonGroup group) {
  switch (group) {
    case ReasonGroup::kHost:
      return "host";
    case ReasonGroup::kArtifact:
      return "artifact";
    case ReasonGroup::kPrediction:
      return "prediction";
    case ReasonGroup::kRun:
      return "run";
    case ReasonGroup::kFleet:
      return "fleet";
    case ReasonGroup::kEvidence:
      return "evidence";
  }
  return "evidence";
}

}  // namespace twinpath
