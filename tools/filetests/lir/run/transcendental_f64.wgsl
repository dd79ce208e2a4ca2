// routine transcendental is rejected: routine `transcendental`: webgpu does not support `exp` on f64: it takes arithmetic in f64
