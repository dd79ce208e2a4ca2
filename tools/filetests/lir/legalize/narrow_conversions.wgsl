// routine narrow is rejected: routine `narrow`: webgpu does not support `convert f16` on f64: it takes arithmetic in f64
