// routine same_triangle, kernel 0, extent 4
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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(4i, (i0_ + 1i))) {
        } else {
            break;
        }
        let _e38 = l0_;
        let _e46 = slab_0_[(at_0_ + u32((i0_ + (i1_ * -1i))))];
        l0_ = (_e38 + (bitcast<f32>(_e46) * 2f));
        continuing {
            let _e51 = i1_next;
            i1_next = (_e51 + 1i);
        }
    }
    let _e53 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e53);
}

// routine beyond_the_triangle, kernel 0, extent 9
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
    if (id >= 9u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 3u));
    let i1_ = bitcast<i32>((id % 3u));
    let _e37 = (((i0_ + (i1_ * -1i)) + -1i) < 0i);
    let _e45 = slab_0_[(at_1_ + select(0u, u32(((i0_ * -1i) + i1_)), _e37))];
    slab_0_[(at_0_ + u32(((i0_ * 3i) + i1_)))] = bitcast<u32>(select(0f, bitcast<f32>(_e45), _e37));
}

// routine row_sums, kernel 0, extent 4
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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(4i, ((i0_ * -1i) + 4i))) {
        } else {
            break;
        }
        let _e39 = l0_;
        let _e44 = slab_0_[(at_0_ + u32(i1_))];
        l0_ = (_e39 + bitcast<f32>(_e44));
        continuing {
            let _e47 = i1_next;
            i1_next = (_e47 + 1i);
        }
    }
    let _e50 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e50);
}

// routine column_sums is rejected: routine `column_sums`: webgpu does not support `index` on i64: it takes arithmetic in i64
