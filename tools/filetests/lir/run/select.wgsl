// routine select, kernel 0, extent 4
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e37 = u32(i0_);
    let _e41 = slab_0_[(at_1_ + _e37)];
    let _e42 = bitcast<f32>(_e41);
    let _e45 = slab_0_[(at_2_ + _e37)];
    let _e46 = bitcast<f32>(_e45);
    slab_0_[(at_0_ + _e37)] = bitcast<u32>(select(_e42, _e46, ((_e46 > _e42) || !(((_e45 & 2147483647u) <= 2139095040u)))));
    let _e58 = slab_0_[(at_1_ + _e37)];
    let _e59 = bitcast<f32>(_e58);
    let _e60 = slab_0_[(at_2_ + _e37)];
    let _e61 = bitcast<f32>(_e60);
    slab_0_[(at_3_ + _e37)] = bitcast<u32>(select(_e59, _e61, ((_e61 < _e59) || !(((_e60 & 2147483647u) <= 2139095040u)))));
    let _e71 = slab_0_[(at_1_ + _e37)];
    let _e73 = slab_0_[(at_2_ + _e37)];
    let _e76 = slab_0_[(at_1_ + _e37)];
    let _e77 = bitcast<f32>(_e76);
    slab_0_[(at_4_ + _e37)] = bitcast<u32>(select(select(3f, 2f, (_e77 == _e77)), 1f, (bitcast<f32>(_e71) <= bitcast<f32>(_e73))));
    let _e87 = slab_0_[(at_1_ + _e37)];
    let _e88 = bitcast<f32>(_e87);
    slab_0_[(at_5_ + _e37)] = bitcast<u32>(select(_e88, 0f, ((0f > _e88) && ((_e87 & 2147483647u) <= 2139095040u))));
}
