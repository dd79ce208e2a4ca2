// routine matmul_fma is rejected: routine `matmul_fma`: webgpu does not support `fma` on f64: it takes arithmetic in f64
