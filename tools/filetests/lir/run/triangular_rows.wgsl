// routine rows_in_vectors, kernel 0, extent 240
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
    if (group >= 4u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 240u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 40u));
    let i1_ = bitcast<i32>((id % 40u));
    l0_ = 0f;
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < min(6i, (i0_ + 1i))) {
        } else {
            break;
        }
        let _e44 = l0_;
        let _e51 = slab_0_[(at_0_ + u32(((i0_ * 6i) + i2_)))];
        let _e59 = slab_0_[(at_1_ + u32((i1_ + (i2_ * 40i))))];
        l0_ = (_e44 + (bitcast<f32>(_e51) * bitcast<f32>(_e59)));
        continuing {
            let _e63 = i2_next;
            i2_next = (_e63 + 1i);
        }
    }
    let _e65 = l0_;
    slab_0_[(at_2_ + u32(((i0_ * 40i) + i1_)))] = bitcast<u32>(_e65);
}

// routine fast_rows, kernel 0, extent 3
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i1_next: i32;

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
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(70i, ((i0_ * 33i) + 1i))) {
        } else {
            break;
        }
        let _e40 = l0_;
        let _e47 = slab_0_[(at_0_ + u32(((i0_ * 70i) + i1_)))];
        l0_ = (_e40 + bitcast<f32>(_e47));
        continuing {
            let _e50 = i1_next;
            i1_next = (_e50 + 1i);
        }
    }
    let _e52 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e52);
}
