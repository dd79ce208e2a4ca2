// routine twice, kernel 0, extent 2
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
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e28 = u32(i0_);
    let _e32 = slab_0_[(at_0_ + _e28)];
    let l0_ = bitcast<f32>(_e32);
    slab_0_[(at_1_ + _e28)] = _e32;
}
// routine twice, kernel 1, extent 2
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
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(0f);
}

// routine kept, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i0_next: i32;
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
    l0_ = 0f;
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 2i) {
        } else {
            break;
        }
        let _e33 = u32(i0_);
        slab_0_[(at_0_ + _e33)] = bitcast<u32>(5f);
        let _e39 = l0_;
        slab_0_[(at_0_ + u32(((i0_ * -1i) + 1i)))] = bitcast<u32>(_e39);
        slab_0_[(at_1_ + _e33)] = bitcast<u32>(1f);
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 2i) {
            } else {
                break;
            }
            let _e55 = u32(i1_);
            let _e58 = slab_0_[(at_0_ + _e55)];
            let _e62 = slab_0_[(at_1_ + _e55)];
            slab_0_[(at_0_ + _e55)] = bitcast<u32>((bitcast<f32>(_e58) + bitcast<f32>(_e62)));
            continuing {
                let _e66 = i1_next;
                i1_next = (_e66 + 1i);
            }
        }
        slab_0_[(at_1_ + _e33)] = bitcast<u32>(2f);
        let _e70 = slab_0_[(at_0_ + _e33)];
        l0_ = bitcast<f32>(_e70);
        continuing {
            let _e72 = i0_next;
            i0_next = (_e72 + 1i);
        }
    }
}
