/* A host library around a ready-made fatbin (FATBIN): the section and the
   wrapper that nvcc writes, without a CUDA runtime. */
        .section .nv_fatbin, "a", @progbits
        .align 8
fatbin:
        .incbin FATBIN
        .section .nvFatBinSegment, "aw", @progbits
        .align 8
wrapper:
        .long 0x466243b1
        .long 1
        .quad fatbin
        .quad 0
/* Host code names the kernels it launches. */
        .section .rodata
        .asciz "_Z8kernel_aPi"
        .section .note.GNU-stack, "", @progbits
