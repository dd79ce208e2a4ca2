// routine diagonal, kernel 0, extent 3
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
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e37 = ((i0_ * -1i) + i1_);
        let _e41 = ((_e37 >= 0i) & (_e37 < 1i));
        let _e47 = slab_0_[(at_1_ + select(0u, u32(i0_), _e41))];
        slab_0_[(at_0_ + u32(((i0_ * 3i) + i1_)))] = bitcast<u32>((select(0f, bitcast<f32>(_e47), _e41) * 2f));
        continuing {
            let _e59 = i1_next;
            i1_next = (_e59 + 1i);
        }
    }
    let _e61 = u32(i0_);
    let _e64 = slab_0_[(at_1_ + _e61)];
    slab_0_[(at_2_ + _e61)] = _e64;
}

// routine overwritten is rejected: routine `overwritten`: webgpu does not support `index` on i64: it takes arithmetic in i64
