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
    var bits_2: u32 = 4286578688u;

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
    let _e43 = bitcast<f32>(_e42);
    let _e46 = bitcast<u32>(select(_e43, bitcast<f32>(_e38), true));
    let _e49 = (_e46 & 2147483647u);
    let _e54 = bits_1;
    let _e58 = bits_2;
    slab_0_[(at_0_ + 1u)] = bitcast<u32>(select(_e43, select(bitcast<f32>(_e58), bitcast<f32>(_e54), ((_e46 ^ bitcast<u32>(0f)) <= 2147483647u)), ((_e49 != 0u) & (_e49 <= 2139095040u))));
    slab_0_[(at_0_ + 2u)] = _e54;
    let _e73 = bitcast<u32>(i32(-2147483648));
    slab_1_[at_1_] = _e73;
    slab_1_[(at_1_ + 1u)] = bitcast<u32>(0i);
    slab_1_[(at_1_ + 2u)] = _e73;
    slab_1_[(at_1_ + 3u)] = bitcast<u32>(1i);
}
