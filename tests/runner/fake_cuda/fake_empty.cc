// A library without any of the symbols that are looked for.

extern "C" int twinpath_fake_library() { return 0; }
