// routine lanes, kernel 0, extent 4
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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(0f);
}
// routine lanes, kernel 1, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var i1_next: i32;

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
    if (id >= 1u) {
        return;
    }
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 4i) {
        } else {
            break;
        }
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 4i) {
            } else {
                break;
            }
            let _e40 = u32(((i0_ * 4i) + i1_));
            let _e44 = slab_0_[(at_1_ + _e40)];
            slab_0_[(at_0_ + _e40)] = bitcast<u32>((bitcast<f32>(_e44) * 2f));
            let _e54 = slab_0_[(at_2_ + u32(i1_))];
            let _e56 = slab_0_[(at_1_ + _e40)];
            slab_0_[(at_2_ + u32(i1_))] = bitcast<u32>((bitcast<f32>(_e54) + bitcast<f32>(_e56)));
            continuing {
                let _e60 = i1_next;
                i1_next = (_e60 + 1i);
            }
        }
        continuing {
            let _e63 = i0_next;
            i0_next = (_e63 + 1i);
        }
    }
    let _e66 = slab_0_[at_2_];
    let _e71 = slab_0_[(at_2_ + 2u)];
    let _e76 = slab_0_[(at_2_ + 1u)];
    let _e81 = slab_0_[(at_2_ + 3u)];
    slab_0_[at_3_] = bitcast<u32>(((bitcast<f32>(_e66) + bitcast<f32>(_e71)) + (bitcast<f32>(_e76) + bitcast<f32>(_e81))));
}
