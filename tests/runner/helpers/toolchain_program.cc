// What a toolkit of the toolchain check's tests "builds": an executable with
// the device code TWINPATH_FATBIN names where nvcc would put it, or with none.
// It runs no device code and says that it did, as the check program does.

#include <cstdio>

#ifdef TWINPATH_FATBIN
__asm__(
    ".pushsection .nv_fatbin,\"a\"\n"
    ".balign 8\n"
    ".globl twinpath_fatbin\n"
    "twinpath_fatbin:\n"
    ".incbin \"" TWINPATH_FATBIN
    "\"\n"
    ".popsection\n");
extern "C" const char twinpath_fatbin[];
#endif

int main() {
#ifdef TWINPATH_FATBIN
  // Refers to it, or the linker drops the section.
  const volatile char* start = twinpath_fatbin;
  if (*start == '\0') return 1;
#endif
  std::puts("PASS: kernel wrote 7");
  return 0;
}
