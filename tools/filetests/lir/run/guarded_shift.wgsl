// routine smooth, kernel 0, extent 5
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
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 5u) {
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
        let _e37 = l0_;
        let _e40 = ((i0_ + i1_) + -1i);
        let _e44 = ((_e40 >= 0i) & (_e40 < 5i));
        let _e50 = slab_0_[(at_0_ + select(0u, u32(_e40), _e44))];
        let _e56 = slab_0_[(at_1_ + u32(i1_))];
        l0_ = (_e37 + (select(0f, bitcast<f32>(_e50), _e44) * bitcast<f32>(_e56)));
        continuing {
            let _e60 = i1_next;
            i1_next = (_e60 + 1i);
        }
    }
    let _e63 = l0_;
    slab_0_[(at_2_ + u32(i0_))] = bitcast<u32>(_e63);
}
