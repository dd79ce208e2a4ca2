// routine softplus_gate, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2139095040u;
    var bits_1: u32 = 4286578688u;
    var bits_2: u32 = 2143289344u;

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
    let _e28 = u32(i0_);
    let _e32 = slab_0_[(at_0_ + _e28)];
    let _e34 = -(bitcast<f32>(_e32));
    let _e43 = select(_e34, -105f, ((-105f > _e34) && ((bitcast<u32>(_e34) & 2147483647u) <= 2139095040u)));
    let l0_ = select(_e43, 90f, ((90f < _e43) && ((bitcast<u32>(_e43) & 2147483647u) <= 2139095040u)));
    let l1_ = fma(l0_, 1.442695f, 12583166f);
    let _e54 = bitcast<u32>(l1_);
    let l2_ = (bitcast<f32>((_e54 ^ select(0u, 1u, (_e54 == 2143289345u)))) - 12583166f);
    let l3_ = bitcast<i32>(l1_);
    let _e65 = bitcast<u32>(fma(l2_, -0.69314575f, l0_));
    let l4_ = fma(l2_, -0.0000014286068f, bitcast<f32>((_e65 ^ select(0u, 1u, (_e65 == 2143289345u)))));
    let l5_ = (l3_ >> 1u);
    let _e92 = (((fma(fma(fma(fma(fma(fma(0.0013814627f, l4_, 0.008368717f), l4_, 0.04166839f), l4_, 0.16666521f), l4_, 0.49999994f), l4_, 1f), l4_, 1f) * bitcast<f32>((l5_ << 23u))) * bitcast<f32>(((l3_ - l5_) << 23u))) + 1f);
    let _e93 = bitcast<u32>(1f);
    let _e94 = (_e93 & 2147483647u);
    let _e99 = bits;
    let _e103 = bits_1;
    let _e105 = bitcast<u32>(_e92);
    let _e111 = bits_2;
    slab_0_[(at_1_ + _e28)] = bitcast<u32>(select((1f / _e92), select(bitcast<f32>(_e111), select(bitcast<f32>(_e103), bitcast<f32>(_e99), ((_e93 ^ _e105) <= 2147483647u)), ((_e94 != 0u) & (_e94 <= 2139095040u))), ((_e105 & 2147483647u) == 0u)));
}
