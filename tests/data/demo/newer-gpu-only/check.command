nvcc -std=c++17 -cudart shared -Xlinker -s -gencode arch=compute_121,code=sm_121 -gencode arch=compute_121,code=compute_121 -o newer-gpu-only/check check.cu
