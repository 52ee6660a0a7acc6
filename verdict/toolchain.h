// What a toolchain check shows (ToolchainCheck: a toolkit's way from the
// queried compute capability to a program that ran on both paths).
//
// The check judges the host's toolchain and nothing else: a cell of kind
// TOOLCHAIN says nothing about the artifact of its release, and its paths are
// the check's own, whatever the policy asks of the artifact's.
//
// Pure functions; thread-safe.

#ifndef TWINPATH_VERDICT_TOOLCHAIN_H_
#define TWINPATH_VERDICT_TOOLCHAIN_H_

#include <string>

#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/sweep.pb.h"
#include "verdict/builder.h"
#include "verdict/evaluated.h"
#include "verdict/path_status.h"

namespace twinpath::verdict {

// The check program's line of success (kernels/check.cu).
inline constexpr char kToolchainPasses[] = "PASS: kernel wrote 7";

// Evaluates one check from its evidence, not from its `holds`.
//   proven        every step is there and held, the built file holds machine
//                 code of exactly the queried target and PTX for it, and both
//                 runs are proven as EvaluatePath says. For a check without a
//                 GPU (built for one that is not there): all but the runs.
//   failed        the toolkit lacks the target (TP110), does not build (TP132),
//                 builds something else (TP133), or a run failed
//   inconclusive  no GPU, no toolkit (TP131), no time, no sandbox; cuobjdump
//                 contradicts (TP431); a piece of evidence is missing
// Where runs failed, the first reason's remedy says where to look, by which of
// them failed.
PathEvaluation EvaluateToolchain(const v1::ToolchainCheck& check);

// "nvcc 13.0.88 in /usr/local/cuda-13.0"; the folder alone where the version is
// not known.
std::string ToolkitText(const v1::ToolchainCheck& check);

// Judges the checks of one GPU, or those without one where `gpu_uuid` is empty.
// Proven where at least one toolkit is; what others lack is then a warning.
// Else failed where one failed, and inconclusive otherwise.
void JudgeToolchains(
    const google::protobuf::RepeatedPtrField<v1::ToolchainCheck>& checks,
    const std::string& gpu_uuid, VerdictBuilder& builder);

// A verdict on checks of several GPUs: each must be proven. `every`: by every
// toolkit.
v1::Verdict JudgeToolchainChecks(
    const google::protobuf::RepeatedPtrField<v1::ToolchainCheck>& checks,
    bool every, bool strict);

// Judges a cell of kind TOOLCHAIN that has no answer to judge: simulated,
// without a GPU, or not done. `ended` as in JudgeEvaluated.
VerdictBuilder JudgeAbsentToolchain(const EvaluatedCell& cell, bool ended);

// What a cell's checks have shown, for the statement of a verdict: "nvcc
// 13.0.88 in /usr/local/cuda-13.0 for sm_90 proven".
std::string ToolchainStatement(
    const google::protobuf::RepeatedPtrField<v1::ToolchainCheck>& checks,
    const std::string& gpu_uuid);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_TOOLCHAIN_H_
