// routine integers, kernel 0, extent 5
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
    let _e15 = table[1u];
    let at_5_ = _e15.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 5u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e37 = u32(i0_);
    let _e41 = (_e37 >> 2u);
    let _e43 = ((_e37 & 3u) * 8u);
    let _e47 = atomicLoad((&slab_0_[(at_0_ + _e41)]));
    let l0_ = ((bitcast<i32>((_e47 >> _e43)) << 24u) >> 24u);
    let _e56 = atomicLoad((&slab_0_[(at_1_ + _e41)]));
    let l1_ = ((bitcast<i32>((_e56 >> _e43)) << 24u) >> 24u);
    let _e62 = (l0_ == 0i);
    let _e64 = (l0_ == -1i);
    let _e80 = ~((255u << _e43));
    let _e81 = atomicAnd((&slab_0_[(at_2_ + _e41)]), _e80);
    let _e82 = atomicOr((&slab_0_[(at_2_ + _e41)]), ((bitcast<u32>(((select(select((l1_ / select(l0_, 1i, (_e62 | _e64))), -(l1_), _e64), 0i, _e62) << 24u) >> 24u)) & 255u) << _e43));
    let _e83 = atomicLoad((&slab_0_[(at_0_ + _e41)]));
    let l2_ = ((bitcast<i32>((_e83 >> _e43)) << 24u) >> 24u);
    let _e88 = atomicLoad((&slab_0_[(at_1_ + _e41)]));
    let _e105 = atomicAnd((&slab_0_[(at_3_ + _e41)]), _e80);
    let _e106 = atomicOr((&slab_0_[(at_3_ + _e41)]), ((bitcast<u32>((((((bitcast<i32>((_e88 >> _e43)) << 24u) >> 24u) % select(l2_, 1i, ((l2_ == 0i) | (l2_ == -1i)))) << 24u) >> 24u)) & 255u) << _e43));
    let _e107 = atomicLoad((&slab_0_[(at_1_ + _e41)]));
    let _e112 = atomicLoad((&slab_0_[(at_0_ + _e41)]));
    let _e128 = atomicAnd((&slab_0_[(at_4_ + _e41)]), _e80);
    let _e129 = atomicOr((&slab_0_[(at_4_ + _e41)]), ((bitcast<u32>((((((bitcast<i32>((_e107 >> _e43)) << 24u) >> 24u) << u32((((bitcast<i32>((_e112 >> _e43)) << 24u) >> 24u) & 7i))) << 24u) >> 24u)) & 255u) << _e43));
    let _e130 = atomicLoad((&slab_0_[(at_1_ + _e41)]));
    let _e134 = ((bitcast<i32>((_e130 >> _e43)) << 24u) >> 24u);
    let _e138 = atomicLoad((&slab_0_[(at_1_ + _e41)]));
    let _e151 = atomicAnd((&slab_0_[(at_5_ + _e41)]), _e80);
    let _e152 = atomicOr((&slab_0_[(at_5_ + _e41)]), ((bitcast<u32>(((((((_e134 * _e134) << 24u) >> 24u) * ((bitcast<i32>((_e138 >> _e43)) << 24u) >> 24u)) << 24u) >> 24u)) & 255u) << _e43));
}
