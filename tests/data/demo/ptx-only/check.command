nvcc -std=c++17 -cudart shared -Xlinker -s -gencode arch=compute_75,code=compute_75 -o ptx-only/check check.cu
