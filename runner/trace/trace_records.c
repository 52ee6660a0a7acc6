/* Records of twinpath-trace.so, and the lock of what its threads share. */

#include "runner/trace/record.h"
#include "runner/trace/system.h"
#include "runner/trace/trace_parts.h"

char tp_trace_folder[2048];
char tp_trace_file[2304];
uint64_t tp_trace_dropped;
uint32_t tp_trace_instance;

static int problems;
static char lock_word;

void TpTraceLock(void) {
  while (__atomic_test_and_set(&lock_word, __ATOMIC_ACQUIRE)) {
    TpCall(__NR_sched_yield, 0, 0, 0, 0);
  }
}
void TpTraceUnlock(void) { __atomic_clear(&lock_word, __ATOMIC_RELEASE); }

void TpTraceRecord(uint16_t type, uint64_t a, uint64_t b, const void* payload,
                   size_t size) {
  TpRecord(tp_trace_file, &tp_trace_dropped, type, tp_trace_instance, a, b,
           payload, size);
}

void TpTraceProblem(const char* what, const char* detail) {
  char text[1024];
  size_t at;
  /* The first ones tell enough. */
  if (__atomic_add_fetch(&problems, 1, __ATOMIC_RELAXED) > 16) return;
  at = TpAppend(text, sizeof(text), 0, what);
  if (detail != NULL && detail[0] != '\0') {
    at = TpAppend(text, sizeof(text), at, ": ");
    at = TpAppend(text, sizeof(text), at, detail);
  }
  TpTraceRecord(TP_RECORD_PROBLEM, 0, 0, text, at);
}
