// routine triangle is rejected: routine `triangle`: webgpu does not support `index` on i64: it takes arithmetic in i64
