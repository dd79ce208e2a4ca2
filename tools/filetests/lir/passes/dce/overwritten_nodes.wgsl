// routine halves, kernel 0, extent 4
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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e28 = u32(i0_);
    let _e32 = slab_0_[(at_1_ + _e28)];
    slab_0_[(at_0_ + _e28)] = _e32;
}
// routine halves, kernel 1, extent 4
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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e32 = slab_0_[(at_1_ + u32(i0_))];
    slab_0_[(at_0_ + u32((i0_ + 4i)))] = bitcast<u32>((bitcast<f32>(_e32) * 2f));
}

// routine kept, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
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
    if (id >= 1u) {
        return;
    }
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 1i) {
        } else {
            break;
        }
        l0_ = 0f;
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 4i) {
            } else {
                break;
            }
            let _e37 = l0_;
            let _e42 = slab_0_[(at_0_ + u32(i1_))];
            l0_ = (_e37 + bitcast<f32>(_e42));
            continuing {
                let _e45 = i1_next;
                i1_next = (_e45 + 1i);
            }
        }
        let _e47 = l0_;
        slab_0_[at_1_] = bitcast<u32>(_e47);
        continuing {
            let _e50 = i0_next;
            i0_next = (_e50 + 1i);
        }
    }
}
// routine kept, kernel 1, extent 4
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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e28 = u32(i0_);
    let _e32 = slab_0_[(at_1_ + _e28)];
    slab_0_[(at_0_ + _e28)] = _e32;
}
// routine kept, kernel 2, extent 4
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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e36 = slab_0_[(at_1_ + u32(((i0_ * -1i) + 3i)))];
    slab_0_[(at_0_ + u32(i0_))] = _e36;
}
// routine kept, kernel 3, extent 4
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
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(1f);
}
// routine kept, kernel 4, extent 4
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
// routine kept, kernel 5, extent 4
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
    let symbol_n = i32(_e5.y);
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
        if (i1_ < min(1i, (symbol_n + (i0_ * -1i)))) {
        } else {
            break;
        }
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(1f);
        continuing {
            let _e44 = i1_next;
            i1_next = (_e44 + 1i);
        }
    }
}

// routine both, kernel 0, extent 2
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
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e30 = u32(i0_);
    let _e34 = slab_0_[(at_1_ + _e30)];
    slab_0_[(at_0_ + _e30)] = bitcast<u32>((bitcast<f32>(_e34) + 1f));
    let _e41 = slab_0_[(at_0_ + _e30)];
    slab_0_[(at_2_ + _e30)] = _e41;
}
