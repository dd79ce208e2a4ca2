// routine unary, kernel 0, extent 6
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let _e13 = table[1u];
    let at_4_ = _e13.x;
    let _e15 = table[1u];
    let at_5_ = _e15.y;
    let _e17 = table[1u];
    let at_6_ = _e17.z;
    let _e19 = table[1u];
    let at_7_ = _e19.w;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 6u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e41 = u32(i0_);
    let _e45 = slab_0_[(at_1_ + _e41)];
    slab_0_[(at_0_ + _e41)] = bitcast<u32>(-(bitcast<f32>(_e45)));
    let _e51 = slab_0_[(at_1_ + _e41)];
    slab_0_[(at_2_ + _e41)] = bitcast<u32>(abs(bitcast<f32>(_e51)));
    let _e57 = slab_0_[(at_1_ + _e41)];
    slab_0_[(at_3_ + _e41)] = bitcast<u32>(select(0f, 1f, (bitcast<f32>(_e57) == 0f)));
    let _e66 = slab_0_[(at_1_ + _e41)];
    let _e67 = bitcast<f32>(_e66);
    let _e74 = select(_e67, 0f, ((0f > _e67) && ((_e66 & 2147483647u) <= 2139095040u)));
    slab_0_[(at_4_ + _e41)] = bitcast<u32>(select(_e74, 1f, ((1f < _e74) && ((bitcast<u32>(_e74) & 2147483647u) <= 2139095040u))));
    let _e84 = slab_0_[(at_1_ + _e41)];
    slab_0_[(at_5_ + _e41)] = bitcast<u32>(trunc(bitcast<f32>(_e84)));
    let _e90 = slab_0_[(at_1_ + _e41)];
    slab_0_[(at_6_ + _e41)] = bitcast<u32>(floor(bitcast<f32>(_e90)));
    let _e96 = slab_0_[(at_1_ + _e41)];
    slab_0_[(at_7_ + _e41)] = bitcast<u32>(round(bitcast<f32>(_e96)));
}
