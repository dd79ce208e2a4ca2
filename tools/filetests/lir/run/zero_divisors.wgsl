// routine by_a_product is rejected: routine `by_a_product`: webgpu does not support `+` on u64: it takes arithmetic in u64
