/* Records that the trace libraries leave in the run's folder, and the system
 * calls they need. The libraries live in foreign processes, so this is plain C,
 * needs nothing but the compiler, and never fails loudly: what cannot be
 * recorded is counted, and the program goes on.
 *
 *   <folder>/objects   records of twinpath-audit.so, all processes
 *   <folder>/device    records of twinpath-trace.so, all processes
 *   <folder>/counts-P-I  launches of process P, its I-th start of the tracer:
 *                      an array of TraceCount, by the index of KERNEL records
 *   <folder>/module-H  bytes of the module with SHA-256 H
 *
 * A record is one write with O_APPEND: it stands whole or not at all in the
 * file, and outlives a crash of its writer. Files are opened anew for each
 * record, since programs close descriptors that they do not know. The reader
 * takes everything for hostile. Native byte order: written and read on the same
 * host. */

#ifndef TWINPATH_RUNNER_TRACE_RECORD_H_
#define TWINPATH_RUNNER_TRACE_RECORD_H_

#include <stdint.h>

#define TP_TRACE_MAGIC 0x31525054u /* "TPR1" */
/* Longest payload of a record: a path, a name or a message. */
#define TP_TRACE_MAX_PAYLOAD 4096u
/* A file of records does not grow beyond this but by what says so. */
#define TP_TRACE_MAX_FILE (32u << 20)
#define TP_TRACE_FILE_RESERVE (1u << 20)
/* Kernels counted in a process. */
#define TP_TRACE_MAX_KERNELS 8192u
/* Bytes of modules that are kept, each and in all (of one process). */
#define TP_TRACE_MAX_MODULE ((uint64_t)64 << 20)
#define TP_TRACE_MAX_MODULES ((uint64_t)512 << 20)

/* Variables of the traced process. */
#define TP_TRACE_FOLDER_VARIABLE "TWINPATH_TRACE_FOLDER"
#define TP_TRACE_CUPTI_VARIABLE "TWINPATH_TRACE_CUPTI"

enum {
  /* The tracer started. a: its version. */
  TP_RECORD_STARTED = 1,
  /* It met a problem. Payload: what. */
  TP_RECORD_PROBLEM = 2,
  /* Records were not kept. a: how many so far. */
  TP_RECORD_DROPPED = 3,
  /* A shared object was opened. Payload: its path. */
  TP_RECORD_OBJECT = 4,
  /* A module was loaded. a: its bytes, b: 1 if module-H holds them. Payload:
   * SHA-256. */
  TP_RECORD_MODULE = 5,
  /* A kernel is about to be launched for the first time. a: its index. Payload:
   * mangled name. */
  TP_RECORD_KERNEL = 6,
  /* A GPU that kernels are launched on. a, b: compute capability. */
  TP_RECORD_DEVICE = 7
};

struct TraceRecord {
  uint32_t magic;
  uint16_t type;
  uint16_t payload; /* bytes behind the header */
  uint32_t pid;
  uint32_t instance; /* of the tracer in this process number */
  uint64_t a;
  uint64_t b;
};

struct TraceCount {
  uint64_t launches;
  uint64_t refused;
  uint64_t error; /* CUDA error of the last refusal */
};

#endif /* TWINPATH_RUNNER_TRACE_RECORD_H_ */
