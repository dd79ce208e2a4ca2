// routine norms, kernel 0, extent 2
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
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e35 = l0_;
        let _e42 = slab_0_[(at_0_ + u32(((i0_ * 3i) + i1_)))];
        let _e43 = bitcast<f32>(_e42);
        l0_ = (_e35 + (_e43 * _e43));
        continuing {
            let _e46 = i1_next;
            i1_next = (_e46 + 1i);
        }
    }
    let _e49 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(sqrt(_e49));
}
