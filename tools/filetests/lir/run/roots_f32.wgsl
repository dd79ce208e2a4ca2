// routine roots, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2139095040u;
    var bits_1: u32 = 4286578688u;
    var bits_2: u32 = 2143289344u;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e32 = u32(i0_);
    let _e36 = slab_0_[(at_1_ + _e32)];
    slab_0_[(at_0_ + _e32)] = bitcast<u32>(sqrt(bitcast<f32>(_e36)));
    let _e42 = slab_0_[(at_1_ + _e32)];
    let _e45 = bitcast<u32>(1f);
    let _e48 = (_e45 & 2147483647u);
    let _e51 = ((_e48 != 0u) & (_e48 <= 2139095040u));
    let _e53 = bits;
    let _e54 = bitcast<f32>(_e53);
    let _e57 = bits_1;
    let _e58 = bitcast<f32>(_e57);
    let _e64 = bits_2;
    let _e65 = bitcast<f32>(_e64);
    slab_0_[(at_2_ + _e32)] = bitcast<u32>(select((1f / bitcast<f32>(_e42)), select(_e65, select(_e58, _e54, ((_e45 ^ _e42) <= 2147483647u)), _e51), ((_e42 & 2147483647u) == 0u)));
    let _e74 = slab_0_[(at_1_ + _e32)];
    let _e76 = sqrt(bitcast<f32>(_e74));
    let _e77 = bitcast<u32>(_e76);
    slab_0_[(at_3_ + _e32)] = bitcast<u32>(select((1f / _e76), select(_e65, select(_e58, _e54, ((_e45 ^ _e77) <= 2147483647u)), _e51), ((_e77 & 2147483647u) == 0u)));
}
