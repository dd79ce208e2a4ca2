// routine select, kernel 0, extent 8
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
    if (id >= 8u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 2u));
    let i1_ = bitcast<i32>((id % 2u));
    let _e38 = slab_0_[(at_1_ + u32(i0_))];
    let _e41 = (_e38 < 3u);
    let _e48 = slab_0_[(at_2_ + select(0u, (u32(i1_) + (_e38 * 2u)), _e41))];
    let _e53 = bitcast<u32>((select(0f, bitcast<f32>(_e48), _e41) + 0f));
    slab_0_[(at_0_ + u32(((i0_ * 2i) + i1_)))] = bitcast<u32>((0f + bitcast<f32>((_e53 ^ select(0u, 1u, (_e53 == 2143289345u))))));
}

// routine products is rejected: routine `products`: webgpu does not support `convert i64` on f32: it takes arithmetic in i64

// routine forms, kernel 0, extent 4
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
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e32 = u32(i0_);
    let _e42 = slab_0_[(at_0_ + (_e32 >> 2u))];
    let _e45 = ((_e42 >> ((_e32 & 3u) * 8u)) & 255u);
    let _e47 = (_e45 < 3u);
    let _e52 = slab_0_[(at_1_ + select(0u, (0u + _e45), _e47))];
    let l1_ = select(0i, bitcast<i32>(_e52), _e47);
    let l0_ = (0i + l1_);
    slab_0_[(at_2_ + _e32)] = bitcast<u32>(l0_);
    let _e62 = slab_0_[(at_3_ + _e32)];
    slab_0_[(at_3_ + _e32)] = bitcast<u32>((bitcast<i32>(_e62) + l1_));
}

// routine outermost, kernel 0, extent 2
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
    let _e34 = slab_0_[(at_0_ + _e30)];
    let _e38 = slab_0_[(at_1_ + _e30)];
    let _e41 = (_e38 < 3u);
    let _e47 = slab_0_[(at_2_ + select(0u, (_e30 + (_e38 * 2u)), _e41))];
    slab_0_[(at_0_ + _e30)] = bitcast<u32>((bitcast<f32>(_e34) + (select(0f, bitcast<f32>(_e47), _e41) + 0f)));
}
