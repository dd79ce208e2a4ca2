// routine integers, kernel 0, extent 6
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 3>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<atomic<u32>>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
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
    let _e17 = table[1u];
    let at_6_ = _e17.z;
    let _e19 = table[1u];
    let at_7_ = _e19.w;
    let _e23 = table[2u];
    let at_8_ = _e23.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 6u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e45 = u32(i0_);
    let _e49 = atomicLoad((&slab_0_[(at_0_ + _e45)]));
    let l0_ = bitcast<i32>(_e49);
    let _e53 = atomicLoad((&slab_0_[(at_1_ + _e45)]));
    let l1_ = bitcast<i32>(_e53);
    let _e56 = (l0_ == 0i);
    let _e58 = (l0_ == -1i);
    atomicStore((&slab_0_[(at_2_ + _e45)]), bitcast<u32>(select(select((l1_ / select(l0_, 1i, (_e56 | _e58))), -(l1_), _e58), 0i, _e56)));
    let _e69 = atomicLoad((&slab_0_[(at_0_ + _e45)]));
    let l2_ = bitcast<i32>(_e69);
    let _e71 = atomicLoad((&slab_0_[(at_1_ + _e45)]));
    atomicStore((&slab_0_[(at_3_ + _e45)]), bitcast<u32>((bitcast<i32>(_e71) % select(l2_, 1i, ((l2_ == 0i) | (l2_ == -1i))))));
    let _e81 = atomicLoad((&slab_0_[(at_1_ + _e45)]));
    let _e83 = atomicLoad((&slab_0_[(at_0_ + _e45)]));
    atomicStore((&slab_0_[(at_4_ + _e45)]), bitcast<u32>((bitcast<i32>(_e81) << u32((bitcast<i32>(_e83) & 31i)))));
    let _e92 = atomicLoad((&slab_0_[(at_1_ + _e45)]));
    let _e94 = atomicLoad((&slab_0_[(at_0_ + _e45)]));
    atomicStore((&slab_0_[(at_5_ + _e45)]), bitcast<u32>((bitcast<i32>(_e92) >> u32((bitcast<i32>(_e94) & 31i)))));
    let _e102 = atomicLoad((&slab_0_[(at_1_ + _e45)]));
    atomicStore((&slab_0_[(at_6_ + _e45)]), bitcast<u32>(-(bitcast<i32>(_e102))));
    let _e108 = atomicLoad((&slab_0_[(at_1_ + _e45)]));
    let _e109 = bitcast<i32>(_e108);
    atomicStore((&slab_0_[(at_7_ + _e45)]), bitcast<u32>(select(_e109, -(_e109), (_e109 < 0i))));
    let _e116 = atomicLoad((&slab_0_[(at_1_ + _e45)]));
    let _e118 = atomicLoad((&slab_0_[(at_0_ + _e45)]));
    let _e125 = ((_e45 & 3u) * 8u);
    let _e133 = atomicAnd((&slab_0_[(at_8_ + (_e45 >> 2u))]), ~((255u << _e125)));
    let _e134 = atomicOr((&slab_0_[(at_8_ + (_e45 >> 2u))]), (select(0u, 1u, (bitcast<i32>(_e116) < bitcast<i32>(_e118))) << _e125));
}

// routine logic, kernel 0, extent 1
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
    let _e17 = table[1u];
    let at_6_ = _e17.z;
    let _e19 = table[1u];
    let at_7_ = _e19.w;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    atomicStore((&slab_0_[at_0_]), bitcast<u32>(0i));
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 4i) {
        } else {
            break;
        }
        let _e47 = u32(i0_);
        let _e51 = (_e47 >> 2u);
        let _e53 = ((_e47 & 3u) * 8u);
        let _e56 = atomicLoad((&slab_0_[(at_2_ + _e51)]));
        let _e63 = atomicLoad((&slab_0_[(at_3_ + _e51)]));
        let _e73 = ~((255u << _e53));
        let _e74 = atomicAnd((&slab_0_[(at_1_ + _e51)]), _e73);
        let _e75 = atomicOr((&slab_0_[(at_1_ + _e51)]), (select(0u, 1u, ((((_e56 >> _e53) & 255u) != 0u) & (((_e63 >> _e53) & 255u) != 0u))) << _e53));
        let _e76 = atomicLoad((&slab_0_[(at_2_ + _e51)]));
        let _e80 = atomicLoad((&slab_0_[(at_3_ + _e51)]));
        let _e89 = atomicAnd((&slab_0_[(at_4_ + _e51)]), _e73);
        let _e90 = atomicOr((&slab_0_[(at_4_ + _e51)]), (select(0u, 1u, ((((_e76 >> _e53) & 255u) != 0u) | (((_e80 >> _e53) & 255u) != 0u))) << _e53));
        let _e91 = atomicLoad((&slab_0_[(at_2_ + _e51)]));
        let _e95 = atomicLoad((&slab_0_[(at_3_ + _e51)]));
        let _e104 = atomicAnd((&slab_0_[(at_5_ + _e51)]), _e73);
        let _e105 = atomicOr((&slab_0_[(at_5_ + _e51)]), (select(0u, 1u, ((((_e91 >> _e53) & 255u) != 0u) != (((_e95 >> _e53) & 255u) != 0u))) << _e53));
        let _e106 = atomicLoad((&slab_0_[(at_2_ + _e51)]));
        let _e116 = atomicAnd((&slab_0_[(at_6_ + _e51)]), _e73);
        let _e117 = atomicOr((&slab_0_[(at_6_ + _e51)]), (select(0u, 1u, ((((_e106 >> _e53) & 255u) != 0u) == false)) << _e53));
        let _e118 = atomicLoad((&slab_0_[(at_3_ + _e51)]));
        let l0_ = (((_e118 >> _e53) & 255u) != 0u);
        let _e122 = atomicLoad((&slab_0_[(at_2_ + _e51)]));
        let _e131 = atomicAnd((&slab_0_[(at_7_ + _e51)]), _e73);
        let _e132 = atomicOr((&slab_0_[(at_7_ + _e51)]), (select(0u, 1u, select(l0_, false, (((_e122 >> _e53) & 255u) != 0u))) << _e53));
        let _e133 = atomicLoad((&slab_0_[at_0_]));
        let _e135 = atomicLoad((&slab_0_[(at_2_ + _e51)]));
        atomicStore((&slab_0_[at_0_]), bitcast<u32>((bitcast<i32>(_e133) + select(0i, 1i, (((_e135 >> _e53) & 255u) != 0u)))));
        continuing {
            let _e143 = i0_next;
            i0_next = (_e143 + 1i);
        }
    }
}
