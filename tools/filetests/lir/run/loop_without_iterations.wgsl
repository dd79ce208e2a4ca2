// routine loop_without_iterations, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let symbol_s0_ = i32(_e7.z);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < min(2i, (symbol_s0_ + -1i))) {
        } else {
            break;
        }
        let _e39 = slab_0_[at_1_];
        slab_0_[at_0_] = bitcast<u32>(f32(((_e39 >> 0u) & 255u)));
        continuing {
            let _e46 = i0_next;
            i0_next = (_e46 + 1i);
        }
    }
}
// routine loop_without_iterations, kernel 1, extent 3
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e30 = slab_0_[at_1_];
    slab_0_[(at_0_ + u32(i0_))] = _e30;
}
