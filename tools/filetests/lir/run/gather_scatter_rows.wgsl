// routine rows, kernel 0, extent 52
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
    if (id >= 52u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 13u));
    let i1_ = bitcast<i32>((id % 13u));
    let _e38 = slab_0_[(at_1_ + u32(i0_))];
    let _e41 = (_e38 < 3u);
    let _e48 = slab_0_[(at_2_ + select(0u, (u32(i1_) + (_e38 * 13u)), _e41))];
    slab_0_[(at_0_ + u32(((i0_ * 13i) + i1_)))] = bitcast<u32>(select(-1f, bitcast<f32>(_e48), _e41));
}
// routine rows, kernel 1, extent 39
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
    if (id >= 39u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 13u));
    let i1_ = bitcast<i32>((id % 13u));
    slab_0_[(at_0_ + u32(((i0_ * 13i) + i1_)))] = bitcast<u32>(0f);
}
// routine rows, kernel 2, extent 13
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
    if (id >= 13u) {
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
        let _e39 = slab_0_[(at_1_ + u32(i1_))];
        let _e43 = slab_0_[(at_1_ + u32(i1_))];
        let _e45 = (_e43 < 3u);
        let _e46 = u32(i0_);
        let _e52 = slab_0_[(at_0_ + select(0u, (_e46 + (_e43 * 13u)), _e45))];
        let _e62 = slab_0_[(at_2_ + u32((i0_ + (i1_ * 13i))))];
        if (_e39 < 3u) {
            slab_0_[(at_0_ + (_e46 + (_e39 * 13u)))] = bitcast<u32>((select(0f, bitcast<f32>(_e52), _e45) + (bitcast<f32>(_e62) * 2f)));
        }
        continuing {
            let _e72 = i1_next;
            i1_next = (_e72 + 1i);
        }
    }
}
// routine rows, kernel 3, extent 3
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
        if (i1_ < 13i) {
        } else {
            break;
        }
        let _e35 = l0_;
        let _e42 = slab_0_[(at_0_ + u32(((i0_ * 13i) + i1_)))];
        l0_ = (_e35 + bitcast<f32>(_e42));
        continuing {
            let _e45 = i1_next;
            i1_next = (_e45 + 1i);
        }
    }
    let _e48 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e48);
}
