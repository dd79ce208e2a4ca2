// routine pick, kernel 0, extent 8
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 8u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 2u));
    let i1_ = bitcast<i32>((id % 2u));
    let _e38 = slab_0_[(at_1_ + u32(i0_))];
    let _e41 = (_e38 < 3u);
    let _e48 = slab_0_[(at_2_ + select(0u, (u32(i1_) + (_e38 * 2u)), _e41))];
    let _e53 = bitcast<u32>((select(0f, bitcast<f32>(_e48), _e41) + 0f));
    slab_0_[(at_0_ + u32(((i0_ * 2i) + i1_)))] = bitcast<u32>((0f + bitcast<f32>((_e53 ^ select(0u, 1u, (_e53 == 2143289345u))))));
}
