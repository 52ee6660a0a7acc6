/* twinpath-audit.so: lists every shared object that the processes of a run
 * open, through the loader's audit interface (rtld-audit(7), LD_AUDIT). The
 * loader gives it a namespace of its own; it has no C library there and needs
 * none, so that it works with whatever library the program has and costs next
 * to nothing. It asks for no symbol bindings: calls are not slowed down.
 *
 * See record.h for what it writes. Every process that starts with LD_AUDIT
 * loads it anew, forked ones keep it. */

#include <stddef.h>
#include <stdint.h>

#include "runner/trace/record.h"
#include "runner/trace/system.h"

#define EXPORT __attribute__((visibility("default")))

/* The head of glibc's struct link_map (<link.h>), stable since 2.0. */
struct LinkMap {
  uintptr_t address;
  char* name;
};

/* Newest interface of <link.h> this library was written for; only la_version
 * and la_objopen are used, which never changed. */
#define NEWEST_VERSION 2u

static char objects_file[TP_TRACE_MAX_PAYLOAD];
static uint64_t dropped;
static int first = 1;

/* glibc calls initializers with main's arguments. */
__attribute__((constructor)) static void Start(int argc, char** argv,
                                               char** environment) {
  static const char kName[] = TP_TRACE_FOLDER_VARIABLE "=";
  size_t i;
  (void)argc;
  (void)argv;
  for (; environment != NULL && *environment != NULL; ++environment) {
    for (i = 0; kName[i] != '\0' && (*environment)[i] == kName[i]; ++i) {
    }
    if (kName[i] != '\0') continue;
    i = TpAppend(objects_file, sizeof(objects_file), 0, *environment + i);
    i = TpAppend(objects_file, sizeof(objects_file), i, "/objects");
    /* A cut path would be another file. */
    if (i + 1 >= sizeof(objects_file)) objects_file[0] = '\0';
    return;
  }
}

static void Record(uint16_t type, const char* text, size_t size) {
  TpRecord(objects_file, &dropped, type, 0, NEWEST_VERSION, 0, text, size);
}

/* The program's own file; "" names it in the loader's list. */
static void RecordProgram(uint16_t type) {
  char path[TP_TRACE_MAX_PAYLOAD];
  const long size = TpCall(__NR_readlinkat, TP_AT_FDCWD, (long)"/proc/self/exe",
                           (long)path, (long)sizeof(path));
  if (size > 0) {
    Record(type, path, (size_t)size);
  } else {
    Record(type, "", 0);
  }
}

EXPORT unsigned int la_version(unsigned int version);
EXPORT unsigned int la_version(unsigned int version) {
  return version < NEWEST_VERSION ? version : NEWEST_VERSION;
}

EXPORT unsigned int la_objopen(struct LinkMap* map, long namespace_id,
                               uintptr_t* cookie);
EXPORT unsigned int la_objopen(struct LinkMap* map, long namespace_id,
                               uintptr_t* cookie) {
  const char* name = map->name == NULL ? "" : map->name;
  (void)namespace_id;
  (void)cookie;
  if (first) {
    first = 0;
    RecordProgram(TP_RECORD_STARTED);
  }
  if (name[0] == '\0') {
    RecordProgram(TP_RECORD_OBJECT);
  } else if (name[0] == '/') {
    Record(TP_RECORD_OBJECT, name, TpLength(name));
  } else {
    size_t i;
    int is_path = 0;
    for (i = 0; name[i] != '\0'; ++i) is_path |= name[i] == '/';
    if (is_path) {
      /* Opened relative to the working folder. */
      char path[TP_TRACE_MAX_PAYLOAD];
      const long size = TpCall(__NR_getcwd, (long)path, (long)sizeof(path), 0,
                               0); /* counts the zero at its end */
      size_t at = size > 0 ? (size_t)size - 1 : 0;
      at = TpAppend(path, sizeof(path), at, "/");
      at = TpAppend(path, sizeof(path), at, name);
      Record(TP_RECORD_OBJECT, path, at);
    }
    /* Else the kernel's own, linux-vdso.so.1: no file. */
  }
  return 0; /* no bindings from or to it */
}
