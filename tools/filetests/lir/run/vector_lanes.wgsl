// routine lanes, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(0f);
}
// routine lanes, kernel 1, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i1_next: i32;

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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 4i) {
        } else {
            break;
        }
        let _e37 = u32((i0_ + (i1_ * 4i)));
        let _e41 = slab_0_[(at_1_ + _e37)];
        slab_0_[(at_0_ + _e37)] = bitcast<u32>((bitcast<f32>(_e41) * 2f));
        let _e51 = slab_0_[(at_2_ + u32(i0_))];
        let _e53 = slab_0_[(at_1_ + _e37)];
        slab_0_[(at_2_ + u32(i0_))] = bitcast<u32>((bitcast<f32>(_e51) + bitcast<f32>(_e53)));
        continuing {
            let _e57 = i1_next;
            i1_next = (_e57 + 1i);
        }
    }
}
// routine lanes, kernel 2, extent 1
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
    if (id >= 1u) {
        return;
    }
    let _e28 = slab_0_[at_1_];
    let _e33 = slab_0_[(at_1_ + 2u)];
    let _e38 = slab_0_[(at_1_ + 1u)];
    let _e43 = slab_0_[(at_1_ + 3u)];
    slab_0_[at_0_] = bitcast<u32>(((bitcast<f32>(_e28) + bitcast<f32>(_e33)) + (bitcast<f32>(_e38) + bitcast<f32>(_e43))));
}
