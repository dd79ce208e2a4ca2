// routine prefix_sum is rejected: routine `prefix_sum`: webgpu does not support `+` on i64: it takes arithmetic in i64
