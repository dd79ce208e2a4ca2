// routine margins, kernel 0, extent 3
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
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e29 = (i0_ + -1i);
    let _e31 = (_e29 >= 0i);
    let _e37 = slab_0_[(at_1_ + select(0u, u32(_e29), _e31))];
    let _e41 = u32(i0_);
    let _e44 = slab_0_[(at_1_ + _e41)];
    let _e48 = (i0_ + 1i);
    let _e50 = (_e48 < 3i);
    let _e55 = slab_0_[(at_1_ + select(0u, u32(_e48), _e50))];
    slab_0_[(at_0_ + _e41)] = bitcast<u32>(((select(0f, bitcast<f32>(_e37), _e31) + bitcast<f32>(_e44)) + select(0f, bitcast<f32>(_e55), _e50)));
}

// routine reshaped, kernel 0, extent 6
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
    if (id >= 6u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 3u));
    let i1_ = bitcast<i32>((id % 3u));
    let _e35 = u32(((i0_ * 3i) + i1_));
    let _e39 = slab_0_[(at_1_ + _e35)];
    slab_0_[(at_0_ + _e35)] = bitcast<u32>((bitcast<f32>(_e39) + 1f));
}

// routine searched, kernel 0, extent 6
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
    if (id >= 6u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 2i) {
        } else {
            break;
        }
        let _e35 = l0_;
        let _e37 = (i0_ * -1i);
        let _e42 = ((_e37 + (i1_ * -3i)) + 5i);
        let _e46 = ((_e42 >= 0i) & (_e42 < 3i));
        let _e53 = slab_0_[(at_0_ + select(0u, u32((_e37 + 5i)), _e46))];
        l0_ = select(_e35, bitcast<f32>(_e53), _e46);
        continuing {
            let _e56 = i1_next;
            i1_next = (_e56 + 1i);
        }
    }
    let _e59 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e59);
}

// routine transposed_convolution is rejected: routine `transposed_convolution`: webgpu does not support `index` on i64: it takes arithmetic in i64

// routine interleaved, kernel 0, extent 3
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
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e28 = u32(i0_);
    let _e32 = slab_0_[(at_1_ + _e28)];
    let _e41 = slab_0_[(at_1_ + u32(((i0_ * -1i) + 5i)))];
    slab_0_[(at_0_ + _e28)] = bitcast<u32>((bitcast<f32>(_e32) - bitcast<f32>(_e41)));
}

// routine prefix is rejected: routine `prefix`: webgpu does not support `index` on i64: it takes arithmetic in i64
