// routine tanh64 is rejected: routine `tanh64`: webgpu does not support `tanh` on f64: it takes arithmetic in f64
