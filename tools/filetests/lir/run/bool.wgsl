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
        let _e45 = u32(i0_);
        let _e49 = (_e45 >> 2u);
        let _e51 = ((_e45 & 3u) * 8u);
        let _e54 = atomicLoad((&slab_0_[(at_2_ + _e49)]));
        let _e61 = atomicLoad((&slab_0_[(at_3_ + _e49)]));
        let _e71 = ~((255u << _e51));
        let _e72 = atomicAnd((&slab_0_[(at_1_ + _e49)]), _e71);
        let _e73 = atomicOr((&slab_0_[(at_1_ + _e49)]), (select(0u, 1u, ((((_e54 >> _e51) & 255u) != 0u) & (((_e61 >> _e51) & 255u) != 0u))) << _e51));
        let _e74 = atomicLoad((&slab_0_[(at_2_ + _e49)]));
        let _e78 = atomicLoad((&slab_0_[(at_3_ + _e49)]));
        let _e87 = atomicAnd((&slab_0_[(at_4_ + _e49)]), _e71);
        let _e88 = atomicOr((&slab_0_[(at_4_ + _e49)]), (select(0u, 1u, ((((_e74 >> _e51) & 255u) != 0u) | (((_e78 >> _e51) & 255u) != 0u))) << _e51));
        let _e89 = atomicLoad((&slab_0_[(at_2_ + _e49)]));
        let _e93 = atomicLoad((&slab_0_[(at_3_ + _e49)]));
        let _e102 = atomicAnd((&slab_0_[(at_5_ + _e49)]), _e71);
        let _e103 = atomicOr((&slab_0_[(at_5_ + _e49)]), (select(0u, 1u, ((((_e89 >> _e51) & 255u) != 0u) != (((_e93 >> _e51) & 255u) != 0u))) << _e51));
        let _e104 = atomicLoad((&slab_0_[(at_2_ + _e49)]));
        let _e114 = atomicAnd((&slab_0_[(at_6_ + _e49)]), _e71);
        let _e115 = atomicOr((&slab_0_[(at_6_ + _e49)]), (select(0u, 1u, ((((_e104 >> _e51) & 255u) != 0u) == false)) << _e51));
        let _e116 = atomicLoad((&slab_0_[at_0_]));
        let _e118 = atomicLoad((&slab_0_[(at_2_ + _e49)]));
        atomicStore((&slab_0_[at_0_]), bitcast<u32>((bitcast<i32>(_e116) + select(0i, 1i, (((_e118 >> _e51) & 255u) != 0u)))));
        continuing {
            let _e126 = i0_next;
            i0_next = (_e126 + 1i);
        }
    }
}
