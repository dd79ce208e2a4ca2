// routine padded is rejected: routine `padded`: webgpu does not support `index` on i64: it takes arithmetic in i64
