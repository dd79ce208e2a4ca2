// routine at_zero, kernel 0, extent 6
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2143289344u;
    var bits_1: u32 = 2139095040u;
    var bits_2: u32 = 4286578688u;

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
    let _e17 = table[1u];
    let at_6_ = _e17.z;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 6u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e39 = u32(i0_);
    let _e43 = slab_0_[(at_1_ + _e39)];
    let _e53 = bits;
    let _e54 = bitcast<f32>(_e53);
    slab_0_[(at_0_ + _e39)] = bitcast<u32>(select(_e54, (bitcast<f32>(_e43) * 0f), ((_e43 & 2147483647u) < 2139095040u)));
    let _e59 = slab_0_[(at_1_ + _e39)];
    let _e61 = (_e59 & 2147483647u);
    slab_0_[(at_2_ + _e39)] = bitcast<u32>(select(_e54, (0f / bitcast<f32>(_e59)), ((_e61 != 0u) & (_e61 <= 2139095040u))));
    let _e70 = slab_0_[(at_1_ + _e39)];
    let _e72 = (_e70 & 2147483647u);
    let _e77 = bits_1;
    let _e81 = bits_2;
    slab_0_[(at_3_ + _e39)] = bitcast<u32>(select(_e54, select(bitcast<f32>(_e81), bitcast<f32>(_e77), ((_e70 ^ bitcast<u32>(0f)) <= 2147483647u)), ((_e72 != 0u) & (_e72 <= 2139095040u))));
    let _e91 = slab_0_[(at_1_ + _e39)];
    let _e92 = bitcast<f32>(_e91);
    slab_0_[(at_4_ + _e39)] = bitcast<u32>(select(_e54, (_e92 - _e92), (((_e91 & 2147483647u) < 2139095040u) | (_e91 != _e91))));
    let _e102 = slab_0_[(at_1_ + _e39)];
    let _e103 = bitcast<f32>(_e102);
    let _e104 = (_e102 & 2147483647u);
    slab_0_[(at_5_ + _e39)] = bitcast<u32>(select(_e54, (_e103 / _e103), (((_e104 < 2139095040u) & ((_e104 != 0u) & (_e104 <= 2139095040u))) | (_e102 != _e102))));
    let _e117 = slab_0_[(at_1_ + _e39)];
    slab_0_[(at_6_ + _e39)] = bitcast<u32>((select(_e54, (bitcast<f32>(_e117) * 0f), ((_e117 & 2147483647u) < 2139095040u)) + 1f));
}

// routine at_zero_f64 is rejected: routine `at_zero_f64`: webgpu does not support `*` on f64: it takes arithmetic in f64

// routine constant_nan, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2143289344u;

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
    let _e29 = bits;
    slab_0_[(at_0_ + u32(i0_))] = _e29;
}

// routine of_one_window, kernel 0, extent 3
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2143289344u;

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
    let _e33 = select(0u, u32(_e29), _e31);
    let _e42 = slab_0_[(at_0_ + (_e33 >> 2u))];
    let l0_ = select(126u, ((_e42 >> ((_e33 & 3u) * 8u)) & 255u), _e31);
    let l1_ = (l0_ & 127u);
    let _e67 = (select(select(bitcast<u32>((bitcast<f32>((l1_ << 21u)) * 5192297000000000000000000000000000f)), 2139095040u, (l1_ == 124u)), 2143289344u, (124u < l1_)) | ((l0_ & 128u) << 24u));
    let _e68 = bitcast<f32>(_e67);
    let _e76 = bits;
    let _e78 = select(bitcast<f32>(_e76), (_e68 - _e68), (((_e67 & 2147483647u) < 2139095040u) | (_e67 != _e67)));
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(select(_e78, 2f, ((2f > _e78) && ((bitcast<u32>(_e78) & 2147483647u) <= 2139095040u))));
}

// routine great_integers is rejected: routine `great_integers`: webgpu does not support `convert f32` on i64: it takes arithmetic in i64
