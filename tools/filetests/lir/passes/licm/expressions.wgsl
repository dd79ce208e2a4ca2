// routine rows, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2139095040u;
    var bits_1: u32 = 4286578688u;
    var bits_2: u32 = 2143289344u;
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
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e34 = slab_0_[(at_0_ + u32(i0_))];
    let _e37 = bitcast<u32>(1f);
    let _e40 = (_e37 & 2147483647u);
    let _e45 = bits;
    let _e49 = bits_1;
    let _e56 = bits_2;
    let l0_ = select((1f / bitcast<f32>(_e34)), select(bitcast<f32>(_e56), select(bitcast<f32>(_e49), bitcast<f32>(_e45), ((_e37 ^ _e34) <= 2147483647u)), ((_e40 != 0u) & (_e40 <= 2139095040u))), ((_e34 & 2147483647u) == 0u));
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e70 = u32(((i0_ * 3i) + i1_));
        let _e73 = slab_0_[(at_2_ + _e70)];
        let _e76 = slab_0_[(at_0_ + u32(i0_))];
        slab_0_[(at_1_ + _e70)] = bitcast<u32>(((bitcast<f32>(_e73) * l0_) + (bitcast<f32>(_e76) + 1f)));
        continuing {
            let _e83 = i1_next;
            i1_next = (_e83 + 1i);
        }
    }
}
