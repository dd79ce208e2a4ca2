// routine fused is rejected: routine `fused`: webgpu does not support `index` on i64: it takes arithmetic in i64

// routine rows, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i1_next: i32;
    var i2_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e35 = l0_;
        let _e42 = slab_0_[(at_0_ + u32(((i0_ * 3i) + i1_)))];
        l0_ = (_e35 + bitcast<f32>(_e42));
        continuing {
            let _e45 = i1_next;
            i1_next = (_e45 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e53 = u32(((i0_ * 3i) + i2_));
        let _e56 = slab_0_[(at_0_ + _e53)];
        let _e58 = l0_;
        slab_0_[(at_1_ + _e53)] = bitcast<u32>((bitcast<f32>(_e56) - _e58));
        continuing {
            let _e63 = i2_next;
            i2_next = (_e63 + 1i);
        }
    }
}
