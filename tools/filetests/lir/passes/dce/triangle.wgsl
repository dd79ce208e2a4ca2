// routine partly_overwritten, kernel 0, extent 3
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i1_next: i32;
    var i2_next: i32;
    var i3_next: i32;

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
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        slab_0_[(at_0_ + u32(((i0_ * 3i) + i1_)))] = bitcast<u32>(7f);
        continuing {
            let _e41 = i1_next;
            i1_next = (_e41 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        i3_next = 0i;
        loop {
            let i3_ = i3_next;
            if (i3_ < min(1i, ((i0_ + (i2_ * -1i)) + 1i))) {
            } else {
                break;
            }
            let _e57 = u32(((i0_ * 3i) + i2_));
            let _e60 = slab_0_[(at_1_ + _e57)];
            slab_0_[(at_0_ + _e57)] = _e60;
            continuing {
                let _e64 = i3_next;
                i3_next = (_e64 + 1i);
            }
        }
        continuing {
            let _e66 = i2_next;
            i2_next = (_e66 + 1i);
        }
    }
}

// routine maybe_never, kernel 0, extent 3
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
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(0f);
}
// routine maybe_never, kernel 1, extent 3
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
    let symbol_n = i32(_e7.z);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(1i, symbol_n)) {
        } else {
            break;
        }
        let _e37 = u32(i0_);
        let _e41 = slab_0_[(at_1_ + _e37)];
        slab_0_[(at_0_ + _e37)] = _e41;
        continuing {
            let _e45 = i1_next;
            i1_next = (_e45 + 1i);
        }
    }
}
