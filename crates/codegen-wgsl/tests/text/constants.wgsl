// 1 workgroups, 2 words
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
@group(0) @binding(2) 
var<storage, read_write> slab_1_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2143289344u;
    var bits_1: u32 = 2139095040u;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    slab_0_[at_0_] = bitcast<u32>(1.5f);
    let _e38 = slab_0_[(at_0_ + select(0u, (2u + (2u * 7u)), true))];
    let _e42 = bits;
    slab_0_[(at_0_ + 1u)] = bitcast<u32>((select(bitcast<f32>(_e42), bitcast<f32>(_e38), true) / 0f));
    let _e52 = bits_1;
    slab_0_[(at_0_ + 2u)] = _e52;
    let _e59 = bitcast<u32>(i32(-2147483648));
    slab_1_[at_1_] = _e59;
    slab_1_[(at_1_ + 1u)] = bitcast<u32>(0i);
    slab_1_[(at_1_ + 2u)] = _e59;
    slab_1_[(at_1_ + 3u)] = bitcast<u32>(1i);
}
