// routine integers, kernel 0, extent 5
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 5u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e39 = u32(i0_);
    let _e43 = slab_0_[(at_1_ + _e39)];
    let _e47 = slab_0_[(at_2_ + _e39)];
    slab_0_[(at_0_ + _e39)] = bitcast<u32>((bitcast<i32>(_e43) + bitcast<i32>(_e47)));
    let _e53 = slab_0_[(at_2_ + _e39)];
    let l0_ = bitcast<i32>(_e53);
    let _e55 = slab_0_[(at_1_ + _e39)];
    let l1_ = bitcast<i32>(_e55);
    let _e58 = (l0_ == 0i);
    let _e60 = (l0_ == -1i);
    slab_0_[(at_3_ + _e39)] = bitcast<u32>(select(select((l1_ / select(l0_, 1i, (_e58 | _e60))), -(l1_), _e60), 0i, _e58));
    let _e71 = slab_0_[(at_2_ + _e39)];
    let l2_ = bitcast<i32>(_e71);
    let _e73 = slab_0_[(at_1_ + _e39)];
    slab_0_[(at_4_ + _e39)] = bitcast<u32>((bitcast<i32>(_e73) % select(l2_, 1i, ((l2_ == 0i) | (l2_ == -1i)))));
    let _e83 = slab_0_[(at_1_ + _e39)];
    let _e87 = slab_0_[(at_2_ + _e39)];
    slab_0_[(at_5_ + _e39)] = bitcast<u32>(((bitcast<i32>(_e83) & 255i) ^ (bitcast<i32>(_e87) | 1i)));
    let _e94 = slab_0_[(at_1_ + _e39)];
    let _e97 = slab_0_[(at_2_ + _e39)];
    slab_0_[(at_6_ + _e39)] = bitcast<u32>(((bitcast<i32>(_e94) << 1u) >> u32((bitcast<i32>(_e97) & 31i))));
}
