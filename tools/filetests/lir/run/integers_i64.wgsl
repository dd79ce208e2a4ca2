// routine wide is rejected: routine `wide`: webgpu does not support `*` on i64: it takes arithmetic in i64
