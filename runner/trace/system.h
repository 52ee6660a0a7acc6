/* System calls without a C library, for twinpath-audit.so, which has none, and
 * for twinpath-trace.so, which must not depend on a new one. Each returns what
 * the kernel returns: a negative errno on failure. */

#ifndef TWINPATH_RUNNER_TRACE_SYSTEM_H_
#define TWINPATH_RUNNER_TRACE_SYSTEM_H_

#include <asm/unistd.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/trace/record.h"

/* From <fcntl.h> and <sys/mman.h> of the kernel, equal on both architectures
 * but for O_NOFOLLOW. */
#define TP_AT_FDCWD (-100)
#define TP_O_RDWR 02
#define TP_O_WRONLY 01
#define TP_O_CREAT 0100
#define TP_O_EXCL 0200
#define TP_O_APPEND 02000
#define TP_O_CLOEXEC 02000000
#if defined(__aarch64__)
#define TP_O_NOFOLLOW 0100000
#else
#define TP_O_NOFOLLOW 0400000
#endif
#define TP_SEEK_END 2
#define TP_EINTR 4
#define TP_EEXIST 17

#if defined(__x86_64__)
static inline long TpCall(long number, long a, long b, long c, long d) {
  long result;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static inline long TpCall(long number, long a, long b, long c, long d) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
                   : "memory");
  return x0;
}
#else
#error "twinpath runs on x86-64 and aarch64"
#endif

static inline int TpOpen(const char* path, int flags, int mode) {
  return (int)TpCall(__NR_openat, TP_AT_FDCWD, (long)path,
                     flags | TP_O_CLOEXEC | TP_O_NOFOLLOW, mode);
}
static inline void TpClose(int fd) { TpCall(__NR_close, fd, 0, 0, 0); }
static inline long TpWrite(int fd, const void* data, size_t size) {
  long wrote;
  do {
    wrote = TpCall(__NR_write, fd, (long)data, (long)size, 0);
  } while (wrote == -TP_EINTR);
  return wrote;
}
static inline long TpSeek(int fd, long offset, int whence) {
  return TpCall(__NR_lseek, fd, offset, whence, 0);
}
static inline uint32_t TpProcess(void) {
  return (uint32_t)TpCall(__NR_getpid, 0, 0, 0, 0);
}

static inline size_t TpLength(const char* text) {
  size_t length = 0;
  while (text[length] != '\0') ++length;
  return length;
}

/* Appends `text` behind `at` in `out` of `size` bytes; returns the new end. The
 * result ends with a zero, cut where it is too long. */
static inline size_t TpAppend(char* out, size_t size, size_t at,
                              const char* text) {
  while (*text != '\0' && at + 1 < size) out[at++] = *text++;
  out[at] = '\0';
  return at;
}

static inline size_t TpAppendNumber(char* out, size_t size, size_t at,
                                    uint64_t number) {
  char digits[24];
  size_t i = sizeof(digits) - 1;
  digits[i] = '\0';
  do {
    digits[--i] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return TpAppend(out, size, at, digits + i);
}

/* Writes one record to `file`. `dropped` counts those that were not written;
 * where the file is full, the count is written now and then instead. */
static inline void TpRecord(const char* file, uint64_t* dropped, uint16_t type,
                            uint32_t instance, uint64_t a, uint64_t b,
                            const void* payload, size_t size) {
  struct {
    struct TraceRecord header;
    char payload[TP_TRACE_MAX_PAYLOAD];
  } record;
  const int full_size = size <= TP_TRACE_MAX_PAYLOAD;
  size_t total;
  size_t i;
  int fd;
  long end;
  if (file[0] == '\0') return;
  if (!full_size) size = TP_TRACE_MAX_PAYLOAD;
  record.header.magic = TP_TRACE_MAGIC;
  record.header.type = type;
  record.header.payload = (uint16_t)size;
  record.header.pid = TpProcess();
  record.header.instance = instance;
  record.header.a = a;
  record.header.b = b;
  for (i = 0; i < size; ++i) record.payload[i] = ((const char*)payload)[i];
  total = sizeof(record.header) + size;
  fd = TpOpen(file, TP_O_WRONLY | TP_O_APPEND | TP_O_CREAT, 0600);
  if (fd < 0) {
    __atomic_add_fetch(dropped, 1, __ATOMIC_RELAXED);
    return;
  }
  end = TpSeek(fd, 0, TP_SEEK_END);
  if (end < 0 || (uint64_t)end + total > TP_TRACE_MAX_FILE ||
      TpWrite(fd, &record, total) != (long)total) {
    const uint64_t count = __atomic_add_fetch(dropped, 1, __ATOMIC_RELAXED);
    /* 1, 2, 4, ...: enough to know that, and about how many. */
    if ((count & (count - 1)) == 0 && end >= 0 &&
        (uint64_t)end + sizeof(record.header) <=
            TP_TRACE_MAX_FILE + TP_TRACE_FILE_RESERVE) {
      record.header.type = TP_RECORD_DROPPED;
      record.header.payload = 0;
      record.header.a = count;
      TpWrite(fd, &record, sizeof(record.header));
    }
  }
  TpClose(fd);
}

#endif /* TWINPATH_RUNNER_TRACE_SYSTEM_H_ */
