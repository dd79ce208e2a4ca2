// routine window, kernel 0, extent 3
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
    let _e9 = table[0u];
    let symbol_row = i32(_e9.w);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e33 = u32(i0_);
    let _e37 = slab_0_[(at_1_ + _e33)];
    let _e45 = (((symbol_row + -1i) >= 0i) & (i0_ >= 1i));
    let _e55 = slab_0_[(at_2_ + select(0u, u32((((symbol_row * 2i) + i0_) + -3i)), _e45))];
    slab_0_[(at_0_ + _e33)] = bitcast<u32>(select(bitcast<i32>(_e37), bitcast<i32>(_e55), _e45));
}
