nvcc -std=c++17 -cudart shared -Xlinker -s  -o plain/check check.cu
