/* What the files of twinpath-trace.so share: its records, the kernels by name
 * and their counts, graphs, the driver's functions. All of it may be called
 * from any thread of the traced process. */

#ifndef TWINPATH_RUNNER_TRACE_TRACE_PARTS_H_
#define TWINPATH_RUNNER_TRACE_TRACE_PARTS_H_

#include <stddef.h>
#include <stdint.h>

#include "runner/trace/cupti_types.h"

#define NO_KERNEL (-1)

/* --- trace_records.c */

/* Where records go; set before anything is recorded. */
extern char tp_trace_folder[2048];
extern char tp_trace_file[2304];
extern uint64_t tp_trace_dropped;
/* Which one of this process this is, if it is loaded several times. */
extern uint32_t tp_trace_instance;

void TpTraceRecord(uint16_t type, uint64_t a, uint64_t b, const void* payload,
                   size_t size);
void TpTraceProblem(const char* what, const char* detail);
/* Guards the kernels and the graphs. */
void TpTraceLock(void);
void TpTraceUnlock(void);

/* --- trace_kernels.c */

/* Makes the file of counts. Returns whether launches are counted. */
int TpMapCounts(void);
/* Index of the kernel; a new one is recorded. NO_KERNEL: there are too many. */
int32_t TpKernelIndex(const char* name);
/* Counts a launch, or one that was refused with an error. */
void TpCount(int32_t kernel, int error);
/* The name of a CUfunction or CUkernel; NULL: the driver does not say. */
const char* TpNameOfFunction(void* function);

/* The driver's functions; NULL where it has none of that name. */
struct TpDriver {
  int (*CtxGetDevice)(int*);
  int (*DeviceGetAttribute)(int*, int, int);
  int (*StreamIsCapturing)(void*, int*);
  int (*FuncGetName)(const char**, void*);
  int (*KernelGetName)(const char**, void*);
  int (*GraphGetNodes)(void*, void**, size_t*);
  int (*GraphNodeGetType)(void*, int*);
  int (*GraphKernelNodeGetParams)(void*, struct TpKernelNode*);
  int (*GraphChildGraphNodeGetGraph)(void*, void**);
};
extern struct TpDriver tp_driver;

/* --- trace_graphs.c */

/* Remembers what `exec` was made from; the newest graph of a handle counts. */
void TpSetGraph(void* exec, void* graph);
void TpForgetGraph(void* exec);
/* Counts the kernels of a graph that was launched. */
void TpCountGraph(void* exec, int error);

/* --- trace_callbacks.c */

/* CUPTI's callback. */
void TpOnCallback(void* user, uint32_t domain, uint32_t id, const void* data);

#endif /* TWINPATH_RUNNER_TRACE_TRACE_PARTS_H_ */
