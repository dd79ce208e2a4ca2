// routine counts is rejected: routine `counts`: webgpu does not support `convert i64` on u8: it takes arithmetic in i64
