// routine bytes, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e35 = u32(i0_);
    let _e39 = (_e35 >> 2u);
    let _e41 = ((_e35 & 3u) * 8u);
    let _e45 = atomicLoad((&slab_0_[(at_1_ + _e39)]));
    let _e51 = atomicLoad((&slab_0_[(at_2_ + _e39)]));
    let _e60 = ~((255u << _e41));
    let _e61 = atomicAnd((&slab_0_[(at_0_ + _e39)]), _e60);
    let _e62 = atomicOr((&slab_0_[(at_0_ + _e39)]), (((((_e45 >> _e41) & 255u) * ((_e51 >> _e41) & 255u)) & 255u) << _e41));
    let _e63 = atomicLoad((&slab_0_[(at_1_ + _e39)]));
    let _e66 = atomicLoad((&slab_0_[(at_2_ + _e39)]));
    let _e74 = atomicAnd((&slab_0_[(at_3_ + _e39)]), _e60);
    let _e75 = atomicOr((&slab_0_[(at_3_ + _e39)]), (select(0u, 1u, (((_e63 >> _e41) & 255u) < ((_e66 >> _e41) & 255u))) << _e41));
    let _e76 = atomicLoad((&slab_0_[(at_1_ + _e39)]));
    let _e84 = atomicAnd((&slab_0_[(at_4_ + _e39)]), _e60);
    let _e85 = atomicOr((&slab_0_[(at_4_ + _e39)]), (((((_e76 >> _e41) & 255u) >> 1u) & 255u) << _e41));
}
