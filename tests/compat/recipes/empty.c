/* Host code without device code. */
int twinpath_host_only(void) { return 1; }
