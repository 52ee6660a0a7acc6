/* The kernels that a process launches, by name, and how often. Counts are in a
 * file mapped shared, so that they outlive a crash and a launch costs no system
 * call. */

#include <string.h>
#include <sys/mman.h>

#include "runner/trace/record.h"
#include "runner/trace/system.h"
#include "runner/trace/trace_parts.h"

#define SLOTS (TP_TRACE_MAX_KERNELS * 2)

struct TpDriver tp_driver;

/* Kernels by name. Guarded by the lock. */
static char names[4 << 20];
static size_t names_end;
static struct {
  uint64_t hash;
  const char* name;
} kernels[TP_TRACE_MAX_KERNELS];
static int32_t kernel_count;
static int32_t slots[SLOTS]; /* index + 1 */
static struct TraceCount* counts;

/* Takes the first free instance of this process. */
int TpMapCounts(void) {
  const size_t size = sizeof(struct TraceCount) * TP_TRACE_MAX_KERNELS;
  char path[2304];
  int fd = -TP_EEXIST;
  void* mapped;
  for (tp_trace_instance = 0; tp_trace_instance < 64 && fd == -TP_EEXIST;
       ++tp_trace_instance) {
    size_t at = TpAppend(path, sizeof(path), 0, tp_trace_folder);
    at = TpAppend(path, sizeof(path), at, "/counts-");
    at = TpAppendNumber(path, sizeof(path), at, TpProcess());
    at = TpAppend(path, sizeof(path), at, "-");
    TpAppendNumber(path, sizeof(path), at, tp_trace_instance + 1);
    fd = TpOpen(path, TP_O_RDWR | TP_O_CREAT | TP_O_EXCL, 0600);
  }
  if (fd < 0) return 0;
  /* Blocks are there before they are written through the mapping: a full file
   * system would otherwise kill the program. */
  if (TpCall(__NR_fallocate, fd, 0, 0, (long)size) == 0) {
    mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) counts = (struct TraceCount*)mapped;
  }
  TpClose(fd);
  return counts != NULL;
}

static uint64_t Hash(const char* name) {
  uint64_t hash = 1469598103934665603u;
  for (; *name != '\0'; ++name) {
    hash = (hash ^ (uint8_t)*name) * 1099511628211u;
  }
  return hash;
}

/* Index of the kernel; a new one is recorded. */
int32_t TpKernelIndex(const char* name) {
  const uint64_t hash = Hash(name);
  size_t slot = hash % SLOTS;
  const size_t length = strlen(name);
  int32_t index = NO_KERNEL;
  TpTraceLock();
  for (; slots[slot] != 0; slot = (slot + 1) % SLOTS) {
    const int32_t known = slots[slot] - 1;
    if (kernels[known].hash == hash && strcmp(kernels[known].name, name) == 0) {
      index = known;
      break;
    }
  }
  if (index == NO_KERNEL && kernel_count < (int32_t)TP_TRACE_MAX_KERNELS &&
      names_end + length + 1 <= sizeof(names)) {
    memcpy(names + names_end, name, length + 1);
    index = kernel_count++;
    kernels[index].hash = hash;
    kernels[index].name = names + names_end;
    names_end += length + 1;
    slots[slot] = index + 1;
    /* Before the launch: it may be the last thing the process does. */
    TpTraceRecord(TP_RECORD_KERNEL, (uint64_t)index, 0, name, length);
  } else if (index == NO_KERNEL) {
    const uint64_t lost =
        __atomic_add_fetch(&tp_trace_dropped, 1, __ATOMIC_RELAXED);
    if ((lost & (lost - 1)) == 0)
      TpTraceRecord(TP_RECORD_DROPPED, lost, 0, "", 0);
  }
  TpTraceUnlock();
  return index;
}

void TpCount(int32_t kernel, int error) {
  if (counts == NULL || kernel < 0) return;
  if (error == 0) {
    __atomic_add_fetch(&counts[kernel].launches, 1, __ATOMIC_RELAXED);
  } else {
    __atomic_add_fetch(&counts[kernel].refused, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&counts[kernel].error, (uint64_t)error, __ATOMIC_RELAXED);
  }
}

const char* TpNameOfFunction(void* function) {
  const char* name = NULL;
  if (function == NULL) return NULL;
  if (tp_driver.FuncGetName != NULL &&
      tp_driver.FuncGetName(&name, function) == 0) {
    return name;
  }
  name = NULL;
  if (tp_driver.KernelGetName != NULL &&
      tp_driver.KernelGetName(&name, function) == 0) {
    return name;
  }
  return NULL;
}
