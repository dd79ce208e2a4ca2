// routine parts is rejected: routine `parts`: webgpu does not support `convert u64` on u32: it takes arithmetic in u64
