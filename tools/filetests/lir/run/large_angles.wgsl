// routine large_angles is rejected: routine `large_angles`: webgpu does not support `sin` on f64: it takes arithmetic in f64
