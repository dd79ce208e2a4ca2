// routine light, kernel 0, extent 3
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
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let l6_ = (id + 42u);
    let l10_ = (l6_ + 0u);
    let l12_ = (0u ^ l10_);
    let l16_ = (l10_ + 0u);
    let l18_ = (0u ^ l16_);
    let l19_ = (0u + l12_);
    let l20_ = ((l12_ << 6u) | (l12_ >> 26u));
    let l21_ = (l20_ ^ l19_);
    let l22_ = (l16_ + l21_);
    let l23_ = ((l21_ << 17u) | (l21_ >> 15u));
    let l24_ = (l23_ ^ l22_);
    let l25_ = (l19_ + l18_);
    let l26_ = ((l18_ << 29u) | (l18_ >> 3u));
    let l27_ = (l26_ ^ l25_);
    let l28_ = (l22_ + l27_);
    let l29_ = ((l27_ << 16u) | (l27_ >> 16u));
    let l30_ = (l29_ ^ l28_);
    let l31_ = (l25_ + l24_);
    let l32_ = ((l24_ << 24u) | (l24_ >> 8u));
    let l33_ = (l32_ ^ l31_);
    let l34_ = (l28_ + 0u);
    let l35_ = (l33_ + 0u);
    let l36_ = (l31_ + 0u);
    let l37_ = (l30_ + 466689008u);
    let l38_ = (l37_ + 1u);
    let l0_ = vec4<u32>(l34_, l35_, l36_, l38_);
    let _e74 = (i0_ * 4i);
    slab_0_[(at_0_ + u32(_e74))] = l0_.x;
    slab_0_[(at_0_ + u32((_e74 + 1i)))] = l0_.y;
    slab_0_[(at_0_ + u32((_e74 + 2i)))] = l0_.z;
    slab_0_[(at_0_ + u32((_e74 + 3i)))] = l0_.w;
}
