// routine matmul, kernel 0, extent 8
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i2_next: i32;

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
    let i0_ = bitcast<i32>((id / 4u));
    let i1_ = bitcast<i32>((id % 4u));
    l0_ = 0f;
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e47 = slab_0_[(at_0_ + u32(((i0_ * 3i) + i2_)))];
        let _e55 = slab_0_[(at_1_ + u32((i1_ + (i2_ * 4i))))];
        let _e57 = l0_;
        l0_ = fma(bitcast<f32>(_e47), bitcast<f32>(_e55), _e57);
        continuing {
            let _e59 = i2_next;
            i2_next = (_e59 + 1i);
        }
    }
    let _e62 = l0_;
    slab_0_[(at_2_ + u32(((i0_ * 4i) + i1_)))] = bitcast<u32>(_e62);
}
