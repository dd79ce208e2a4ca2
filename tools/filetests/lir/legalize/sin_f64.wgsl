// routine sin64 is rejected: routine `sin64`: webgpu does not support `sin` on f64: it takes arithmetic in f64
