// routine sharing, kernel 0, extent 3
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
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e32 = u32(i0_);
    let _e36 = slab_0_[(at_0_ + _e32)];
    let _e39 = (bitcast<f32>(_e36) * 2f);
    let _e48 = select(_e39, -105f, ((-105f > _e39) && ((bitcast<u32>(_e39) & 2147483647u) <= 2139095040u)));
    let l1_ = select(_e48, 90f, ((90f < _e48) && ((bitcast<u32>(_e48) & 2147483647u) <= 2139095040u)));
    let l2_ = fma(l1_, 1.442695f, 12583166f);
    let _e59 = bitcast<u32>(l2_);
    let l3_ = (bitcast<f32>((_e59 ^ select(0u, 1u, (_e59 == 2143289345u)))) - 12583166f);
    let l4_ = bitcast<i32>(l2_);
    let _e70 = bitcast<u32>(fma(l3_, -0.69314575f, l1_));
    let l5_ = fma(l3_, -0.0000014286068f, bitcast<f32>((_e70 ^ select(0u, 1u, (_e70 == 2143289345u)))));
    let l6_ = (l4_ >> 1u);
    let l0_ = ((fma(fma(fma(fma(fma(fma(0.0013814627f, l5_, 0.008368717f), l5_, 0.04166839f), l5_, 0.16666521f), l5_, 0.49999994f), l5_, 1f), l5_, 1f) * bitcast<f32>((l6_ << 23u))) * bitcast<f32>(((l4_ - l6_) << 23u)));
    slab_0_[(at_1_ + _e32)] = bitcast<u32>((l0_ + l0_));
    slab_0_[(at_2_ + _e32)] = bitcast<u32>((l0_ + -1f));
    slab_0_[(at_0_ + _e32)] = bitcast<u32>(0f);
    let _e108 = slab_0_[(at_0_ + _e32)];
    let _e110 = (bitcast<f32>(_e108) * 2f);
    let _e116 = select(_e110, -105f, ((-105f > _e110) && ((bitcast<u32>(_e110) & 2147483647u) <= 2139095040u)));
    let l7_ = select(_e116, 90f, ((90f < _e116) && ((bitcast<u32>(_e116) & 2147483647u) <= 2139095040u)));
    let l8_ = fma(l7_, 1.442695f, 12583166f);
    let _e124 = bitcast<u32>(l8_);
    let l9_ = (bitcast<f32>((_e124 ^ select(0u, 1u, (_e124 == 2143289345u)))) - 12583166f);
    let l10_ = bitcast<i32>(l8_);
    let _e132 = bitcast<u32>(fma(l9_, -0.69314575f, l7_));
    let l11_ = fma(l9_, -0.0000014286068f, bitcast<f32>((_e132 ^ select(0u, 1u, (_e132 == 2143289345u)))));
    let l12_ = (l10_ >> 1u);
    slab_0_[(at_3_ + _e32)] = bitcast<u32>(((fma(fma(fma(fma(fma(fma(0.0013814627f, l11_, 0.008368717f), l11_, 0.04166839f), l11_, 0.16666521f), l11_, 0.49999994f), l11_, 1f), l11_, 1f) * bitcast<f32>((l12_ << 23u))) * bitcast<f32>(((l10_ - l12_) << 23u))));
}
