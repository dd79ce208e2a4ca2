// routine extremes, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 4286578688u;
    var bits_1: u32 = 2139095040u;
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
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e30 = u32(i0_);
    let _e33 = bits;
    slab_0_[(at_0_ + _e30)] = _e33;
    let _e40 = bits_1;
    slab_0_[(at_1_ + _e30)] = _e40;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e54 = slab_0_[(at_2_ + u32(((i0_ * 3i) + i1_)))];
        let _e55 = bitcast<f32>(_e54);
        let _e56 = slab_0_[(at_0_ + _e30)];
        let _e57 = bitcast<f32>(_e56);
        slab_0_[(at_0_ + _e30)] = bitcast<u32>(select(_e55, _e57, ((_e57 > _e55) || !(((_e56 & 2147483647u) <= 2139095040u)))));
        let _e66 = slab_0_[(at_2_ + u32(((i0_ * 3i) + i1_)))];
        let _e67 = bitcast<f32>(_e66);
        let _e68 = slab_0_[(at_1_ + _e30)];
        let _e69 = bitcast<f32>(_e68);
        slab_0_[(at_1_ + _e30)] = bitcast<u32>(select(_e67, _e69, ((_e69 < _e67) || !(((_e68 & 2147483647u) <= 2139095040u)))));
        continuing {
            let _e77 = i1_next;
            i1_next = (_e77 + 1i);
        }
    }
}

// routine extremes_i32, kernel 0, extent 2
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
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e30 = u32(i0_);
    slab_0_[(at_0_ + _e30)] = bitcast<u32>(i32(-2147483648));
    slab_0_[(at_1_ + _e30)] = bitcast<u32>(2147483647i);
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e50 = slab_0_[(at_2_ + u32(((i0_ * 3i) + i1_)))];
        let _e51 = bitcast<i32>(_e50);
        let _e52 = slab_0_[(at_0_ + _e30)];
        let _e53 = bitcast<i32>(_e52);
        slab_0_[(at_0_ + _e30)] = bitcast<u32>(select(_e51, _e53, (_e53 > _e51)));
        let _e57 = slab_0_[(at_2_ + u32(((i0_ * 3i) + i1_)))];
        let _e58 = bitcast<i32>(_e57);
        let _e59 = slab_0_[(at_1_ + _e30)];
        let _e60 = bitcast<i32>(_e59);
        slab_0_[(at_1_ + _e30)] = bitcast<u32>(select(_e58, _e60, (_e60 < _e58)));
        continuing {
            let _e64 = i1_next;
            i1_next = (_e64 + 1i);
        }
    }
}

// routine sums, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<atomic<u32>>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let _e13 = table[1u];
    let at_4_ = _e13.x;
    let _e15 = table[1u];
    let at_5_ = _e15.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    atomicStore((&slab_0_[at_0_]), bitcast<u32>(0f));
    atomicStore((&slab_0_[at_1_]), bitcast<u32>(1f));
    atomicStore((&slab_0_[at_2_]), bitcast<u32>(-0f));
    let _e51 = ~((255u << 0u));
    let _e52 = atomicAnd((&slab_0_[at_3_]), _e51);
    let _e53 = atomicOr((&slab_0_[at_3_]), (select(0u, 1u, false) << 0u));
    let _e58 = atomicAnd((&slab_0_[at_4_]), _e51);
    let _e59 = atomicOr((&slab_0_[at_4_]), (select(0u, 1u, true) << 0u));
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 6i) {
        } else {
            break;
        }
        let _e65 = atomicLoad((&slab_0_[at_0_]));
        let _e70 = atomicLoad((&slab_0_[(at_5_ + u32(i0_))]));
        atomicStore((&slab_0_[at_0_]), bitcast<u32>((bitcast<f32>(_e65) + bitcast<f32>(_e70))));
        let _e74 = atomicLoad((&slab_0_[at_1_]));
        let _e76 = atomicLoad((&slab_0_[(at_5_ + u32(i0_))]));
        atomicStore((&slab_0_[at_1_]), bitcast<u32>((bitcast<f32>(_e74) * bitcast<f32>(_e76))));
        let _e80 = atomicLoad((&slab_0_[at_2_]));
        let _e82 = atomicLoad((&slab_0_[(at_5_ + u32(i0_))]));
        atomicStore((&slab_0_[at_2_]), bitcast<u32>((bitcast<f32>(_e80) + bitcast<f32>(_e82))));
        let _e86 = atomicLoad((&slab_0_[at_3_]));
        let _e90 = atomicLoad((&slab_0_[(at_5_ + u32(i0_))]));
        let _e96 = atomicAnd((&slab_0_[at_3_]), _e51);
        let _e97 = atomicOr((&slab_0_[at_3_]), (select(0u, 1u, ((((_e86 >> 0u) & 255u) != 0u) | (0f < bitcast<f32>(_e90)))) << 0u));
        let _e98 = atomicLoad((&slab_0_[at_4_]));
        let _e102 = atomicLoad((&slab_0_[(at_5_ + u32(i0_))]));
        let _e108 = atomicAnd((&slab_0_[at_4_]), _e51);
        let _e109 = atomicOr((&slab_0_[at_4_]), (select(0u, 1u, ((((_e98 >> 0u) & 255u) != 0u) & (0f < bitcast<f32>(_e102)))) << 0u));
        continuing {
            let _e110 = i0_next;
            i0_next = (_e110 + 1i);
        }
    }
}

// routine wrapping_sums, kernel 0, extent 1
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
    let at_2_ = _e7.z;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    slab_0_[at_0_] = bitcast<u32>(0i);
    slab_0_[at_1_] = bitcast<u32>(1i);
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 5i) {
        } else {
            break;
        }
        let _e39 = slab_0_[at_0_];
        let _e44 = slab_0_[(at_2_ + u32(i0_))];
        slab_0_[at_0_] = bitcast<u32>((bitcast<i32>(_e39) + bitcast<i32>(_e44)));
        let _e48 = slab_0_[at_1_];
        let _e50 = slab_0_[(at_2_ + u32(i0_))];
        slab_0_[at_1_] = bitcast<u32>((bitcast<i32>(_e48) * bitcast<i32>(_e50)));
        continuing {
            let _e54 = i0_next;
            i0_next = (_e54 + 1i);
        }
    }
}
