// routine layers, kernel 0, extent 40
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
    if (id >= 40u) {
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
        let _e44 = slab_0_[(at_0_ + u32(i0_))];
        let _e47 = slab_0_[at_1_];
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(_e44) + bitcast<i32>(_e47)));
        let _e51 = slab_0_[(at_0_ + u32(i0_))];
        let _e55 = slab_0_[(at_1_ + 1u)];
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(_e51) + bitcast<i32>(_e55)));
        let _e59 = slab_0_[(at_0_ + u32(i0_))];
        let _e64 = slab_0_[(at_1_ + 2u)];
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(_e59) + bitcast<i32>(_e64)));
        let _e68 = slab_0_[(at_0_ + u32(i0_))];
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(_e68) + 0i));
        let _e72 = slab_0_[(at_0_ + u32(i0_))];
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(_e72) + 1i));
        let _e76 = slab_0_[(at_0_ + u32(i0_))];
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(_e76) + 2i));
        continuing {
            let _e81 = i1_next;
            i1_next = (_e81 + 1i);
        }
    }
}
// routine layers, kernel 1, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var l0_: i32;
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
        let _e36 = slab_0_[at_0_];
        l0_ = bitcast<i32>(_e36);
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < min(40i, symbol_n)) {
            } else {
                break;
            }
            let _e44 = l0_;
            let _e48 = slab_0_[(at_1_ + u32(i1_))];
            l0_ = (_e44 + bitcast<i32>(_e48));
            continuing {
                let _e51 = i1_next;
                i1_next = (_e51 + 1i);
            }
        }
        let _e53 = l0_;
        slab_0_[at_0_] = bitcast<u32>(_e53);
        continuing {
            let _e55 = i0_next;
            i0_next = (_e55 + 1i);
        }
    }
}
// routine layers, kernel 2, extent 40
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
    if (id >= 40u) {
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
        let _e42 = slab_0_[(at_0_ + u32(i0_))];
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(_e42) + 1i));
        let _e46 = slab_0_[(at_0_ + u32(i0_))];
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(_e46) + 2i));
        let _e51 = slab_0_[(at_0_ + u32(i0_))];
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(_e51) + 3i));
        continuing {
            let _e56 = i1_next;
            i1_next = (_e56 + 1i);
        }
    }
}
// routine layers, kernel 3, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var l0_: i32;
    var i1_next: i32;
    var i2_next: i32;
    var l1_: i32;
    var i3_next: i32;

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
        let _e37 = slab_0_[(at_0_ + 1u)];
        l0_ = bitcast<i32>(_e37);
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < min(40i, symbol_n)) {
            } else {
                break;
            }
            let _e45 = l0_;
            let _e49 = slab_0_[(at_1_ + u32(i1_))];
            l0_ = (_e45 + bitcast<i32>(_e49));
            continuing {
                let _e52 = i1_next;
                i1_next = (_e52 + 1i);
            }
        }
        let _e54 = l0_;
        slab_0_[(at_0_ + 1u)] = bitcast<u32>(_e54);
        continuing {
            let _e56 = i0_next;
            i0_next = (_e56 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 1i) {
        } else {
            break;
        }
        let _e64 = slab_0_[(at_0_ + 2u)];
        l1_ = bitcast<i32>(_e64);
        i3_next = 0i;
        loop {
            let i3_ = i3_next;
            if (i3_ < min(40i, symbol_n)) {
            } else {
                break;
            }
            let _e71 = l1_;
            let _e75 = slab_0_[(at_1_ + u32(i3_))];
            l1_ = (_e71 + bitcast<i32>(_e75));
            continuing {
                let _e78 = i3_next;
                i3_next = (_e78 + 1i);
            }
        }
        let _e80 = l1_;
        slab_0_[(at_0_ + 2u)] = bitcast<u32>(_e80);
        continuing {
            let _e82 = i2_next;
            i2_next = (_e82 + 1i);
        }
    }
}
